//! Which model: `--model`, `--revision`.

use crate::{Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Which model to use.
#[derive(Args, Clone, Debug, Default)]
pub struct ModelFlags {
    /// Folder, GGUF file, hub id (owner/name) or the name of a bundled model [default: the chapter's bundled model]
    #[arg(long, alias = "model-id", value_name = "MODEL")]
    pub model: Option<String>,
    /// Revision of a model of the hub: a branch, tag or commit [default: main]
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
}

/// What `--model` means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A folder with `config.json` and weights.
    Folder(PathBuf),
    /// A GGUF file.
    Gguf(PathBuf),
    /// A model of the hub.
    Hub {
        /// `owner/name`.
        id: String,
        /// Branch, tag or commit.
        revision: String,
    },
    /// A model that ships with the workspace, or a name nobody knows: the list of bundled models decides.
    Bundled(String),
}

impl ModelFlags {
    /// Where the model is: `bundled`, unless the flags say otherwise. Nothing is opened or downloaded.
    ///
    /// What exists on disk is taken first; then `owner/name` is a hub id, and a single word a bundled name.
    ///
    /// # Errors
    /// A path that is not there or is not a model, a revision without a hub id.
    pub fn source(&self, bundled: &str) -> Result<ModelSource> {
        let source = classify(self.model.as_deref().unwrap_or(bundled), self.revision.as_deref())?;
        match (&self.revision, &source) {
            (Some(revision), ModelSource::Folder(_) | ModelSource::Gguf(_) | ModelSource::Bundled(_)) => Err(Error::Flag {
                flag: "--revision",
                found: revision.clone(),
                expected: "only a model of the hub has revisions; give one with --model owner/name, or leave --revision out"
                    .to_owned(),
            }),
            _ => Ok(source),
        }
    }
}

fn classify(model: &str, revision: Option<&str>) -> Result<ModelSource> {
    let refuse = |expected: &str| {
        Err(Error::Flag { flag: "--model", found: format!("{model:?}"), expected: expected.to_owned() })
    };
    let path = Path::new(model);
    let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    let looks_like_a_path = path.is_absolute() || model.starts_with(['.', '~']) || model.contains('\\') || is_gguf;
    if model.trim().is_empty() {
        return refuse("a folder, a GGUF file, a hub id (owner/name) or a bundled name is needed");
    }
    if path.is_dir() {
        return Ok(ModelSource::Folder(path.to_owned()));
    }
    if path.is_file() {
        return if is_gguf {
            Ok(ModelSource::Gguf(path.to_owned()))
        } else {
            refuse("a file must be GGUF (.gguf); for safetensors give the folder that also holds config.json")
        };
    }
    match model.split('/').collect::<Vec<_>>()[..] {
        _ if looks_like_a_path => refuse("no such file or folder"),
        [_] => Ok(ModelSource::Bundled(model.to_owned())),
        [owner, name] if !owner.is_empty() && !name.is_empty() => {
            Ok(ModelSource::Hub { id: model.to_owned(), revision: revision.unwrap_or("main").to_owned() })
        }
        _ => refuse("no such file or folder, and a hub id is owner/name with one slash"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn source(model: Option<&str>, revision: Option<&str>) -> Result<ModelSource, String> {
        let flags = ModelFlags { model: model.map(Into::into), revision: revision.map(Into::into) };
        flags.source("tiny").map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_of_model_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("m.GGUF"), "").unwrap();
        std::fs::write(path("model.safetensors"), "").unwrap();
        let hub = |revision: &str| ModelSource::Hub { id: "owner/name".into(), revision: revision.into() };
        assert_eq!(source(None, None).unwrap(), ModelSource::Bundled("tiny".into()));
        assert_eq!(source(Some("owner/name"), None).unwrap(), hub("main"));
        assert_eq!(source(Some("owner/name"), Some("v1")).unwrap(), hub("v1"));
        assert_eq!(source(Some(&path("")), None).unwrap(), ModelSource::Folder(path("").into()));
        assert_eq!(source(Some(&path("m.GGUF")), None).unwrap(), ModelSource::Gguf(path("m.GGUF").into()));
        for (model, reason) in [
            (path("model.safetensors"), "must be GGUF"),
            (path("absent"), "no such file"),
            ("./absent".into(), "no such file"),
            ("absent.gguf".into(), "no such file"),
            ("a/b/c".into(), "owner/name"),
            ("owner/".into(), "owner/name"),
            (" ".into(), "is needed"),
        ] {
            let message = source(Some(&model), None).unwrap_err();
            assert!(message.contains(reason) && message.contains("--model"), "{message}");
        }
    }

    #[test]
    fn a_revision_needs_a_hub_id() {
        assert!(source(None, Some("v1")).unwrap_err().contains("--revision v1"));
    }
}
