//! From what a user calls a model to its parts: description, tokenizer, weights.
//!
//! [`Source::resolve`] takes, in this order: a folder or a `.gguf` file that exists, the name of a bundled model, a hub id. It
//! opens no weights; the caller reads the config first and asks for [`Source::weights`] when it needs them.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;
use crate::weights::folder::Folder;
use crate::weights::folder::files::list;
use crate::weights::gguf::Gguf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a model comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A folder in Hugging Face layout, with at least `config.json`.
    Folder(PathBuf),
    /// A GGUF file, which holds everything.
    Gguf(Arc<Gguf>),
}

impl Source {
    /// Finds the model that a user calls `model`; `bundled` is the folder of bundled models, a subfolder each.
    ///
    /// # Errors
    /// Nothing of this name exists, or it is no model; a `revision` is given for something that has none.
    pub fn resolve(model: &str, revision: Option<&str>, bundled: &Path) -> Result<Self> {
        let path = Path::new(model);
        if path.exists() {
            return Self::local(path, revision);
        }
        let is_name = !model.is_empty() && !model.contains(['/', '\\']) && !model.starts_with('.');
        if is_name && bundled.join(model).is_dir() {
            return Self::local(&bundled.join(model), revision);
        }
        if is_hub_id(model) && !names_a_file(model) {
            return Self::from_hub(model, revision).map_err(|error| match error {
                Error::Hub { id, problem } => {
                    Error::Hub { id, problem: format!("{problem} (there is no such folder either)") }
                }
                other => other,
            });
        }
        let problem = if is_name && !names_a_file(model) {
            format!("is no folder, no file and no bundled model ({}); a hub id has the form owner/name", names(bundled))
        } else {
            "no such file or folder".into()
        };
        Err(Error::Model { origin: model.into(), problem })
    }

    /// A folder or file that exists.
    fn local(path: &Path, revision: Option<&str>) -> Result<Self> {
        if let Some(revision) = revision {
            return Err(Error::Setting {
                name: "revision",
                found: revision.into(),
                expected: format!("none: {} is local, only models from the hub have revisions", path.display()),
            });
        }
        if path.is_dir() { Self::from_folder(path) } else { Self::from_file(path) }
    }

    fn from_file(path: &Path) -> Result<Self> {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            return Ok(Self::Gguf(Arc::new(Gguf::open(path)?)));
        }
        let problem =
            "is neither a folder nor a .gguf file; pass the folder that has config.json and the weights".into();
        Err(Error::Model { origin: path.display().to_string(), problem })
    }

    /// A folder with `config.json`, or with one GGUF file and nothing to confuse it with.
    fn from_folder(path: &Path) -> Result<Self> {
        if path.join("config.json").is_file() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let ggufs: Vec<String> = list(path)?.into_iter().filter(|name| name.ends_with(".gguf")).collect();
        let problem = match ggufs.as_slice() {
            [gguf] => return Self::from_file(&path.join(gguf)),
            [] => "has no config.json; pass the folder of a model in Hugging Face layout, or a .gguf file".into(),
            several => format!("has several models, pass one of them: {}", several.join(", ")),
        };
        Err(Error::Model { origin: path.display().to_string(), problem })
    }

    #[cfg(feature = "hub")]
    fn from_hub(id: &str, revision: Option<&str>) -> Result<Self> {
        crate::hub::Hub::from_env()?.fetch(id, revision).map(Self::Folder)
    }

    #[cfg(not(feature = "hub"))]
    fn from_hub(id: &str, _revision: Option<&str>) -> Result<Self> {
        let problem = "this build cannot download; build with the feature `hub`, or pass a folder".into();
        Err(Error::Hub { id: id.into(), problem })
    }

    /// Folder or file, for messages.
    pub fn origin(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::Gguf(gguf) => gguf.origin(),
        }
    }

    /// The architecture.
    ///
    /// # Errors
    /// A file cannot be read, or a setting is not supported.
    pub fn config(&self) -> Result<Config> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Gguf(gguf) => {
                let divisors = gguf.rope_divisors()?;
                let has = |name: &str| gguf.has_tensor(name);
                return Config::from_gguf(gguf.metadata(), has, divisors.as_deref(), &self.origin());
            }
        };
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(Error::file("read", &path))
        };
        let generation = "generation_config.json";
        let generation = folder.join(generation).exists().then(|| read(generation)).transpose()?;
        let origin = folder.join("config.json").display().to_string();
        Config::from_json(&read("config.json")?, generation.as_deref(), &origin)
    }

    /// The tokenizer; a folder of weights may lack it, which only matters to those who need text.
    ///
    /// # Errors
    /// There is none, or it is of an unknown kind.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        match self {
            Self::Folder(folder) => Tokenizer::from_file(&folder.join("tokenizer.json")),
            Self::Gguf(gguf) => Tokenizer::from_gguf(gguf.metadata()),
        }
    }

    /// Opens the weights; reads headers only.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn weights(&self) -> Result<Box<dyn Weights>> {
        match self {
            Self::Folder(path) => Ok(Box::new(Folder::open(path)?)),
            Self::Gguf(gguf) => Ok(Box::new(Arc::clone(gguf))),
        }
    }
}

/// Whether `model` can only be a path to a file.
fn names_a_file(model: &str) -> bool {
    [".gguf", ".safetensors", ".bin", ".json"].iter().any(|extension| model.ends_with(extension))
}

/// The bundled models, for a message.
fn names(bundled: &Path) -> String {
    let mut names = list(bundled).unwrap_or_default();
    names.retain(|name| Source::from_folder(&bundled.join(name)).is_ok());
    if names.is_empty() { "there are none".into() } else { names.join(", ") }
}

/// Whether `text` has the form `owner/name`.
pub(crate) fn is_hub_id(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

/// Whether `text` can be an owner, a name or a branch on the hub; never `..`, so it is safe as part of a path.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(allowed) && !text.starts_with(['.', '-']) && !text.ends_with('.')
}
