//! Whether two layouts say the same. Greedy text is equal unless the two best logits are so near that rounding decides between them; then
//! equality was never promised, and that is said.

use super::Work;
use crate::Result;
use candle_core::DType;
use decoder::split::Split;
use decoder::{Context, Tokens};
use serde::Serialize;

/// How a variant's tokens stand to the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// The same.
    Same,
    /// Other from a token on at which the two best logits of the whole model are `margin` apart: a tie, as far as rounding can tell.
    Tie {
        /// Between the best and the second.
        margin: f64,
    },
    /// Other, where there was no tie.
    Other {
        /// Between the best and the second.
        margin: f64,
    },
}

/// Logits nearer than this are equal as far as the order of additions goes, by type.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F32 => 1e-4,
        _ => 1e-1,
    }
}

impl Text {
    /// Compares `found` with `expected`, row by row. Only greedy text can be a tie.
    ///
    /// # Errors
    /// The whole model cannot be loaded or run, to look at its logits.
    pub(super) fn compare(work: &Work, found: &[Vec<u32>], expected: &[Vec<u32>]) -> Result<Self> {
        let differing = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let Some(row) = differing else {
            return Ok(if found.len() == expected.len() { Self::Same } else { Self::Other { margin: f64::INFINITY } });
        };
        let same = found[row].iter().zip(&expected[row]).take_while(|(one, other)| one == other).count();
        let ids: Vec<u32> = work.prompts[row].iter().chain(&expected[row][..same]).copied().collect();
        let model = work.described.load(&Split::whole())?;
        let tokens = Tokens::from_zero(&[&ids], model.device())?;
        let logits = model.next_token_logits(&Context::inference(), &tokens, None)?;
        let mut logits = logits.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        logits.sort_by(|one, other| other.total_cmp(one));
        let margin = logits[0] - logits.get(1).copied().unwrap_or(f64::NEG_INFINITY);
        let greedy = work.generation.sampling.temperature == 0.0;
        let tie = greedy && margin <= tolerance(work.described.dtype);
        Ok(if tie { Self::Tie { margin } } else { Self::Other { margin } })
    }

    /// Whether the layout did what it must.
    pub fn is_right(self) -> bool {
        !matches!(self, Self::Other { .. })
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same => f.pad("✓ same"),
            Self::Tie { margin } => f.pad(&format!("✓ up to a tie ({margin:.0e})")),
            Self::Other { margin } => f.pad(&format!("✗ other (margin {margin:.0e})")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::flags::{BUNDLED, assets};
    use crate::loaded::Described;
    use candle_core::Device;
    use decoder::generation::Options as Generation;
    use decoder::source::Source;
    use training::data::Batch;

    #[test]
    fn a_text_that_leaves_the_path_where_the_logits_are_apart_is_another_text() {
        let source = Source::resolve(BUNDLED, None, &assets()).unwrap();
        let config = source.config().unwrap();
        let work = Work {
            described: Described { source, config, device: Device::Cpu, dtype: DType::F32 },
            prompts: vec![vec![5, 6, 7], vec![9]],
            generation: Generation::default(),
            batch: Batch { inputs: Vec::new(), targets: Vec::new(), rows: 0, seq: 1 },
            micro_batches: 1,
            options: collective::Options::default(),
        };
        let expected = vec![vec![1, 2, 3], vec![4, 5]];
        assert_eq!(Text::compare(&work, &expected, &expected).unwrap(), Text::Same);
        let other = Text::compare(&work, &[vec![1, 2, 3], vec![4, 6]], &expected).unwrap();
        assert!(!other.is_right() && matches!(other, Text::Other { margin } if margin > 1e-4), "{other:?}");
        assert!(!Text::compare(&work, &expected[..1], &expected).unwrap().is_right(), "a row is missing");
        assert!(Text::Tie { margin: 1e-6 }.is_right());
    }
}
