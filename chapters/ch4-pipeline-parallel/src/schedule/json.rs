//! Schedules in files: `{"layout": "straight", "micro_batches": 2, "stages": [["F0", "F1", "B0", "B1"], …]}`.

use super::{Action, Layout, Schedule};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file. Actions are text: see [`Action`]'s `Display`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default = "straight")]
    layout: Layout,
    micro_batches: usize,
    stages: Vec<Vec<String>>,
}

fn straight() -> Layout {
    Layout::Straight
}

impl Schedule {
    /// Reads a schedule and checks it.
    ///
    /// # Errors
    /// The file cannot be read, has an action that is none, or its schedule is not valid.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |problem: String| Error::File { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::from_json(&text).map_err(|error| wrong(error.to_string()))
    }

    /// The schedule in `text`, checked.
    ///
    /// # Errors
    /// The text is not such a document, or its schedule is not valid.
    pub fn from_json(text: &str) -> Result<Self> {
        let document: Document = serde_json::from_str(text).map_err(|error| Error::Schedule(error.to_string()))?;
        let mut stages = Vec::new();
        for (stage, list) in document.stages.iter().enumerate() {
            let actions = list.iter().enumerate().map(|(index, text)| {
                text.parse::<Action>()
                    .map_err(|problem| Error::Schedule(format!("stage {stage}, number {index} of its list: {problem}")))
            });
            stages.push(actions.collect::<Result<Vec<_>>>()?);
        }
        let schedule = Self { layout: document.layout, micro_batches: document.micro_batches, stages };
        schedule.check()?;
        Ok(schedule)
    }

    /// The document.
    pub fn to_json(&self) -> serde_json::Value {
        let stages = self.stages.iter().map(|list| list.iter().map(ToString::to_string).collect()).collect();
        let document = Document { layout: self.layout, micro_batches: self.micro_batches, stages };
        serde_json::to_value(document).unwrap_or_default()
    }
}
