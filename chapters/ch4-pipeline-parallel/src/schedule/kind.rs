//! The schedules that have a name.

use super::{Schedule, generators};
use crate::{Error, Result};
use clap::ValueEnum;

/// Forwards of a schedule at most, over all stages and chunks: a few seconds and a gigabyte to simulate.
const MOST: usize = 1 << 22;

/// A schedule of the literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// One micro-batch at a time: all stages but one wait
    Naive,
    /// All forwards, then all backwards (Huang et al., 2019)
    Gpipe,
    /// A backward as soon as there is one: fewer activations, the same bubble (Narayanan et al., 2019)
    #[value(name = "1f1b")]
    OneForwardOneBackward,
    /// Several chunks per stage: a smaller bubble, more messages (Narayanan et al., 2021)
    Interleaved,
    /// The weight gradient later, with the memory of 1F1B (Qi et al., 2023)
    ZbH1,
    /// More forwards ahead: no bubble, twice the memory (Qi et al., 2023)
    ZbH2,
    /// Two chunks in a V: no bubble, the memory of 1F1B (Qi et al., 2024)
    ZbV,
    /// Two copies of the model, from both ends (DeepSeek-V3, 2024); timed only
    Dualpipe,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Naive,
        Self::Gpipe,
        Self::OneForwardOneBackward,
        Self::Interleaved,
        Self::ZbH1,
        Self::ZbH2,
        Self::ZbV,
        Self::Dualpipe,
    ];

    /// As `--schedule` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Gpipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::Interleaved => "interleaved",
            Self::ZbH1 => "zb-h1",
            Self::ZbH2 => "zb-h2",
            Self::ZbV => "zb-v",
            Self::Dualpipe => "dualpipe",
        }
    }

    /// Which numbers of stages p and micro-batches m it can be made for.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Interleaved => "m a multiple of p",
            Self::Dualpipe => "p even, m even and at least 2p",
            _ => "every p and m from 1 up",
        }
    }

    /// Chunks per stage, if `wanted` are asked for: only the interleaved schedule has a choice.
    ///
    /// # Errors
    /// It has another number.
    pub fn chunks(self, wanted: Option<usize>) -> Result<usize> {
        let (own, legal) = match self {
            Self::Interleaved => (wanted.unwrap_or(2).max(1), wanted.is_none_or(|chunks| chunks >= 1)),
            Self::ZbV | Self::Dualpipe => (2, wanted.is_none_or(|chunks| chunks == 2)),
            _ => (1, wanted.is_none_or(|chunks| chunks == 1)),
        };
        match wanted {
            Some(found) if !legal => Err(Error::Setting {
                name: "chunks",
                found: found.to_string(),
                expected: match self {
                    Self::Interleaved => "interleaved has at least 1 chunk per stage".to_owned(),
                    _ => format!("{} has {own} per stage; interleaved takes any number", self.name()),
                },
            }),
            _ => Ok(own),
        }
    }

    /// The schedule. `chunks` counts for the interleaved one alone.
    ///
    /// # Errors
    /// [`Error::Kind`] for numbers that its [`rule`](Kind::rule) excludes.
    pub fn schedule(self, stages: usize, micro_batches: usize, chunks: usize) -> Result<Schedule> {
        self.legal(stages, micro_batches, chunks)?;
        Ok(match self {
            Self::Naive => generators::naive(stages, micro_batches),
            Self::Gpipe => generators::gpipe(stages, micro_batches),
            Self::OneForwardOneBackward => generators::one_forward_one_backward(stages, micro_batches),
            Self::Interleaved => generators::interleaved(stages, micro_batches, chunks.max(1)),
            Self::ZbH1 => generators::zb_h1(stages, micro_batches),
            Self::ZbH2 => generators::zb_h2(stages, micro_batches),
            Self::ZbV => generators::zb_v(stages, micro_batches),
            Self::Dualpipe => generators::dualpipe(stages, micro_batches),
        })
    }

    /// Whether the numbers are legal. `chunks` counts for the interleaved one alone.
    ///
    /// # Errors
    /// They are not; the message says which are.
    pub fn legal(self, stages: usize, micro_batches: usize, chunks: usize) -> Result<()> {
        let wrong = |problem: String| Err(Error::Kind { kind: self.name(), stages, micro_batches, problem });
        if stages == 0 {
            return wrong("at least 1 stage".to_owned());
        }
        if micro_batches == 0 {
            return wrong("at least 1 micro-batch".to_owned());
        }
        let chunks = match self {
            Self::Interleaved => chunks.max(1),
            Self::ZbV => 2,
            _ => 1,
        };
        // ZB-V is made for as many as fill the V, and cut to those that are there.
        let made = if self == Self::ZbV { micro_batches.max(stages.saturating_mul(2)) } else { micro_batches };
        if stages.saturating_mul(made).saturating_mul(chunks) > MOST {
            return wrong(format!(
                "more than {MOST} forwards: stages times micro-batches times chunks per stage, of which it has {chunks}"
            ));
        }
        match self {
            Self::Interleaved if !micro_batches.is_multiple_of(stages) => {
                let below = micro_batches / stages * stages;
                let lower = if below == 0 { String::new() } else { format!("{below} or ") };
                wrong(format!(
                    "micro-batches go around in groups of one per stage: {lower}{} are a multiple of {stages}",
                    below + stages
                ))
            }
            Self::Dualpipe if !stages.is_multiple_of(2) => {
                wrong(format!("stages hold the two ends in pairs: {} or {} stages", stages - 1, stages + 1))
            }
            Self::Dualpipe if micro_batches < 2 * stages || !micro_batches.is_multiple_of(2) => {
                let least = micro_batches.next_multiple_of(2).max(2 * stages);
                wrong(format!("two per stage fill it from both ends: an even number from {} up", least))
            }
            _ => Ok(()),
        }
    }
}
