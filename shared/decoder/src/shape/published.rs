//! The published models of `assets/models.toml`, by name.

use super::lookup;
use super::model::{ModelShape, Size};
use crate::error::{Error, Result};
use serde::Deserialize;

/// Embedded, so that programs run from anywhere.
const MODELS: &str = include_str!("../../../../assets/models.toml");

/// A published model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PublishedModel {
    /// Name as people write it.
    pub name: String,
    /// Other names that it is found by.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Where the sizes are from.
    pub source: String,
    /// Parameters as published, where an exact number is; the shape gives the same.
    #[serde(default)]
    pub parameters: Option<u64>,
    /// How long it was trained, where that is published.
    #[serde(default)]
    pub training: Option<PublishedTraining>,
    /// Its sizes.
    pub shape: ModelShape,
}

/// How long a published model was trained.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PublishedTraining {
    /// Tokens, repeated ones counted each time.
    pub tokens: Size,
    /// Where the number is from.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    model: Vec<PublishedModel>,
}

/// All published models, in the order of `assets/models.toml`.
///
/// # Errors
/// The file that was compiled in is damaged.
pub fn published_models() -> Result<Vec<PublishedModel>> {
    let catalogue: Catalogue = toml::from_str(MODELS)
        .map_err(|error| Error::Model { origin: "assets/models.toml".into(), problem: error.to_string() })?;
    for model in &catalogue.model {
        model.shape.check()?;
    }
    Ok(catalogue.model)
}

/// The published model called `name`; case, spaces, dashes and underscores make no difference.
///
/// ```
/// let llama = decoder::shape::published("llama-2-7b")?;
/// assert_eq!(llama.shape.parameters()?.total(), 6_738_415_616);
/// # Ok::<(), decoder::Error>(())
/// ```
///
/// # Errors
/// There is none of that name; the message lists the nearest.
pub fn published(name: &str) -> Result<PublishedModel> {
    let models = published_models()?;
    lookup::find("model", name, &models, |model| (&model.name, &model.aliases)).cloned()
}
