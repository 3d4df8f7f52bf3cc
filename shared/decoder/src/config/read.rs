//! One object of settings, read key by key; every error names file, key, what was found and what was expected.
//!
//! `null` counts as absent, as in the `transformers` library; the few places where it does not ask [`Settings::is_null`].

use crate::error::{Error, Result};
use serde_json::{Map, Value};

/// Largest size accepted for anything that is counted: far above every model, and small enough that the product of two
/// sizes cannot overflow.
pub(super) const LARGEST: usize = 1 << 31;

/// Values longer than this are cut in messages.
const LONGEST_SHOWN: usize = 80;

/// Settings by key, with where they stand.
pub(super) struct Settings<'a> {
    origin: &'a str,
    /// Path of the object inside the file, with its dot: `rope_scaling.`, or nothing.
    path: String,
    entries: &'a Map<String, Value>,
}

/// Parses the text of a JSON file that must hold an object.
pub(super) fn parse(text: &str, origin: &str) -> Result<Map<String, Value>> {
    let problem = |problem: String| Error::Model { origin: origin.to_owned(), problem };
    match serde_json::from_str(text) {
        Ok(Value::Object(entries)) => Ok(entries),
        Ok(other) => Err(problem(format!("expected a JSON object with settings, found {}", shown(&other)))),
        Err(error) => Err(problem(format!("is not JSON: {error}"))),
    }
}

/// A value as messages show it.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A whole number that is not negative, also when it is written as `4096.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // Above 2^53 not every whole number has an f64.
        (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
    })
}

impl<'a> Settings<'a> {
    /// The settings of a whole file.
    pub(super) fn new(entries: &'a Map<String, Value>, origin: &'a str) -> Self {
        Self { origin, path: String::new(), entries }
    }

    /// The file that the settings stand in.
    pub(super) fn origin(&self) -> &'a str {
        self.origin
    }

    /// All keys with their values, `null` ones too.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key`; `None` if it is absent or `null`.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.entries.get(key).filter(|value| !value.is_null())
    }

    /// Whether `key` is there and `null`.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.entries.get(key).is_some_and(Value::is_null)
    }

    /// The error about `key`.
    pub(super) fn error(&self, key: &str, expected: impl Into<String>) -> Error {
        Error::Config {
            origin: self.origin.to_owned(),
            key: format!("{}{key}", self.path),
            found: self.entries.get(key).map_or_else(|| "absent".to_owned(), shown),
            expected: expected.into(),
        }
    }

    /// A whole number, zero included.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>> {
        self.whole_from(0, key)
    }

    /// A size: a whole number of at least 1.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>> {
        self.whole_from(1, key)
    }

    /// A size that has no default.
    pub(super) fn required_size(&self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| self.error(key, format!("expected a whole number from 1 to {LARGEST}")))
    }

    fn whole_from(&self, least: usize, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        whole(value)
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| (least..=LARGEST).contains(number))
            .map(Some)
            .ok_or_else(|| self.error(key, format!("expected a whole number from {least} to {LARGEST}")))
    }

    /// A finite number for which `legal` holds; `range` says the same in words.
    pub(super) fn number(&self, key: &str, range: &str, legal: impl Fn(f64) -> bool) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_f64()
            .filter(|&number| number.is_finite() && legal(number))
            .map(Some)
            .ok_or_else(|| self.error(key, format!("expected a number {range}")))
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.number(key, "above 0", |number| number > 0.0)
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.error(key, "expected true or false"))
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.error(key, "expected a text in quotes"))
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value
            .as_array()
            .and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
            .map(Some)
            .ok_or_else(|| self.error(key, "expected a list of texts"))
    }

    /// One token id, or a list of at least one, in its order.
    pub(super) fn token_ids(&self, key: &str) -> Result<Option<Vec<u32>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let id = |value: &Value| whole(value).and_then(|id| u32::try_from(id).ok());
        let ids = match value {
            Value::Array(list) => list.iter().map(id).collect::<Option<Vec<_>>>().filter(|ids| !ids.is_empty()),
            single => id(single).map(|id| vec![id]),
        };
        ids.map(Some).ok_or_else(|| self.error(key, "expected a token id, or a list of token ids"))
    }

    /// An object inside this one.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let entries = value.as_object().ok_or_else(|| self.error(key, "expected an object with settings, or null"))?;
        Ok(Some(Self { origin: self.origin, path: format!("{}{key}.", self.path), entries }))
    }
}
