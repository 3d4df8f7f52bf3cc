//! Which model: `--model`, `--revision`.

use crate::Result;
use clap::Args;
use decoder::source::Source;
use std::path::PathBuf;

/// The model that ships with the workspace.
pub const BUNDLED: &str = "stories-1.9m";

/// Which model.
#[derive(Args, Clone, Debug, Default)]
pub struct ModelFlags {
    /// Folder, GGUF file, bundled name or hub id (owner/name) [default: the bundled stories-1.9m]
    #[arg(long, alias = "model-id", value_name = "MODEL")]
    pub model: Option<String>,
    /// Branch, tag or commit of a model of the hub [default: main]
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
}

impl ModelFlags {
    /// Finds the model; a model of the hub is downloaded if it is not in the cache.
    ///
    /// # Errors
    /// There is no such model.
    pub fn source(&self) -> Result<Source> {
        let model = self.model.as_deref().unwrap_or(BUNDLED);
        Ok(Source::resolve(model, self.revision.as_deref(), &assets())?)
    }
}

/// The folder `assets` of the workspace.
pub fn assets() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets"))
}
