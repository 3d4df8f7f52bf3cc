//! Finding a published name that a person typed.

use crate::error::{Error, Result};

/// How many near names an error lists.
const NEAR: usize = 5;

/// The entry that is called `wanted`: upper and lower case, spaces, dashes and underscores make no difference.
///
/// # Errors
/// There is none; the message lists the nearest names.
pub(super) fn find<'a, T>(
    kind: &'static str,
    wanted: &str,
    entries: &'a [T],
    names: impl Fn(&'a T) -> (&'a str, &'a [String]),
) -> Result<&'a T> {
    let key = normalise(wanted);
    let mut near = Vec::new();
    for entry in entries {
        let (name, aliases) = names(entry);
        let mut best = usize::MAX;
        for known in std::iter::once(name).chain(aliases.iter().map(String::as_str)) {
            let known = normalise(known);
            if known == key {
                return Ok(entry);
            }
            best = best.min(distance(&key, &known));
        }
        near.push((best, name));
    }
    near.sort_by_key(|&(distance, _)| distance);
    let near: Vec<&str> = near.into_iter().take(NEAR).map(|(_, name)| name).collect();
    Err(Error::Setting {
        name: kind,
        found: format!("{wanted:?}"),
        expected: format!("known are, nearest first: {}", near.join(", ")),
    })
}

/// A name without what makes no difference.
pub(super) fn normalise(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Levenshtein's distance: how many characters must be inserted, deleted or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut next = vec![i + 1];
        let mut left = i + 1;
        for (&b, pair) in to.iter().zip(row.windows(2)) {
            let [diagonal, above] = *pair else { break };
            left = (above + 1).min(left + 1).min(diagonal + usize::from(a != b));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
