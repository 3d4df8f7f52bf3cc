//! Which files of a folder hold the weights.
//!
//! | in the folder | taken |
//! |---|---|
//! | `model.safetensors` | that file; an index beside it is a leftover, unless it names this file |
//! | `model.safetensors.index.json` | the shards that it names |
//! | `model-00001-of-00003.safetensors` … without an index | all three, each must be there |
//! | anything else | an error that says what is there |

use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(crate) const SINGLE: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
/// Largest index that is read, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

/// The files that hold the weights.
#[derive(Debug)]
pub(crate) struct Files {
    /// File names within the folder.
    pub(crate) names: BTreeSet<String>,
    /// Which file holds which weight, by the index if there is one.
    pub(crate) map: BTreeMap<String, String>,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Files {
    /// Finds them; all of them exist.
    pub(crate) fn find(folder: &Path) -> Result<Self> {
        let index = folder.join(INDEX);
        if folder.join(SINGLE).exists() {
            let sharded = if index.exists() { Some(Self::from_index(&index)?) } else { None };
            return match sharded.filter(|files| files.names.contains(SINGLE)) {
                Some(files) => files.existing(folder),
                None => Ok(Self { names: BTreeSet::from([SINGLE.into()]), map: BTreeMap::new() }),
            };
        }
        if index.exists() {
            return Self::from_index(&index)?.existing(folder);
        }
        Self::without_index(folder)
    }

    /// What an index names.
    pub(crate) fn from_index(path: &Path) -> Result<Self> {
        let fault = |problem: String| Error::Model { origin: path.display().to_string(), problem };
        let length = path.metadata().map_err(Error::file("read", path))?.len();
        if length > INDEX_LIMIT {
            return Err(fault(format!("has {length} bytes, too many for an index; download it again")));
        }
        let text = std::fs::read(path).map_err(Error::file("read", path))?;
        let index: Index = serde_json::from_slice(&text)
            .map_err(|error| fault(format!("is not an index of safetensors files ({error}); download it again")))?;
        let names: BTreeSet<String> = index.weight_map.values().cloned().collect();
        // A name with a directory in it could lead anywhere.
        if let Some(name) = names.iter().find(|name| !name.ends_with(".safetensors") || name.contains(['/', '\\', ':']))
        {
            return Err(fault(format!(
                "names the file {name:?}; only safetensors files in the same folder are allowed"
            )));
        }
        if names.is_empty() {
            return Err(fault("names no weights at all".into()));
        }
        Ok(Self { names, map: index.weight_map })
    }

    fn existing(self, folder: &Path) -> Result<Self> {
        let Some(missing) = self.names.iter().find(|name| !folder.join(name).exists()) else { return Ok(self) };
        let held = self.map.values().filter(|name| *name == missing).count();
        Err(Error::Model {
            origin: folder.display().to_string(),
            problem: format!(
                "{missing} is missing; by {INDEX} it holds {held} of {} weights; download it",
                self.map.len()
            ),
        })
    }

    fn without_index(folder: &Path) -> Result<Self> {
        let present = list(folder)?;
        let numbered: BTreeMap<&str, (u32, u32)> =
            present.iter().filter_map(|name| Some((name.as_str(), shard_number(name)?))).collect();
        let fault = |problem: String| Error::Model { origin: folder.display().to_string(), problem };
        let Some(&(_, count)) = numbered.values().next() else { return Err(fault(nothing_usable(&present))) };
        if let Some((name, _)) = numbered.iter().find(|(_, (_, other))| *other != count) {
            return Err(fault(format!(
                "{name} is not one of {count} shards like the others; remove what does not belong"
            )));
        }
        let there: BTreeSet<u32> = numbered.values().map(|(number, _)| *number).collect();
        if let Some(number) = (1..=count).find(|number| !there.contains(number)) {
            return Err(fault(format!("model-{number:05}-of-{count:05}.safetensors is missing; download it")));
        }
        Ok(Self { names: numbered.keys().map(|name| (*name).to_owned()).collect(), map: BTreeMap::new() })
    }
}

/// File names in `folder`, sorted.
pub(crate) fn list(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))? {
        names.push(entry.map_err(Error::file("read", folder))?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// `model-00002-of-00003.safetensors` → (2, 3).
fn shard_number(name: &str) -> Option<(u32, u32)> {
    let (number, count) = name.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    Some((number.parse().ok()?, count.parse().ok().filter(|count| *count <= 10_000)?))
}

/// What to say of a folder (or repository) with these files and no weights that can be read.
pub(crate) fn nothing_usable(present: &[String]) -> String {
    let with = |end: &str| present.iter().find(|name| name.ends_with(end));
    if let Some(name) = with(".safetensors") {
        return format!("has {name}, but neither {SINGLE} nor {INDEX}; rename the file if it holds the whole model");
    }
    if let Some(name) = with(".gguf") {
        return format!("has no safetensors, but {name}; pass that file itself");
    }
    let pytorch = |name: &&String| name.starts_with("pytorch_model") || name.ends_with(".pth") || name.ends_with(".pt");
    if let Some(name) = present.iter().find(pytorch) {
        return format!(
            "has only PyTorch weights ({name}); convert them with `save_pretrained(…, safe_serialization=True)`"
        );
    }
    let few: Vec<&str> = present.iter().take(5).map(String::as_str).collect();
    let found = if few.is_empty() { "it is empty".into() } else { format!("found {}", few.join(", ")) };
    format!("has neither {SINGLE} nor {INDEX}; {found}")
}
