//! What the checks of all sources say when a checkpoint is not what the config asks for.

use super::WeightSpec;
use crate::error::{Error, Result};

/// What a source knows of one weight before reading it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    /// Its shape.
    pub(super) shape: &'a [usize],
    /// The name of its type, if that cannot be read.
    pub(super) unreadable: Option<&'a str>,
}

/// Checks `specs` against a source in which `find` looks a name up and `names` lists what is there.
pub(super) fn check<'a, N: Iterator<Item = &'a str>>(
    origin: &str,
    specs: &[WeightSpec],
    find: impl Fn(&str) -> Option<Stored<'a>>,
    names: impl Fn() -> N,
) -> Result<()> {
    let missing = || specs.iter().filter(|spec| find(&spec.name).is_none()).count();
    for spec in specs {
        let fault = |found: String, expected: String| Error::Weight {
            origin: origin.into(),
            name: spec.name.to_string(),
            found,
            expected,
        };
        let Some(stored) = find(&spec.name) else {
            let asked = if specs.len() > 1 {
                format!(" ({} of {} are missing)", missing(), specs.len())
            } else {
                String::new()
            };
            return Err(fault(format!("{}{asked}", examples(names())), format!("a weight of shape {:?}", spec.shape)));
        };
        if stored.shape != spec.shape {
            return Err(fault(format!("shape {:?}", stored.shape), format!("{:?} by the config", spec.shape)));
        }
        if let Some(dtype) = stored.unreadable {
            return Err(fault(
                format!("type {dtype}"),
                "a type that can be read; convert it to bf16, f16 or f32".into(),
            ));
        }
    }
    Ok(())
}

/// Says what is there instead: up to three names.
fn examples<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => "nothing, there are no weights at all".into(),
        [first, second, third, _, ..] => {
            format!("no such name among {}, such as {first}, {second}, {third}", names.len())
        }
        few => format!("only {}", few.join(", ")),
    }
}
