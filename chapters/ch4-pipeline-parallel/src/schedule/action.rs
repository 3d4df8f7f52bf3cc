//! One thing that a stage does.

use std::fmt;
use std::str::FromStr;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// From the activations that come in to those that go out.
    Forward,
    /// Both gradients, as one: that of the input is sent when that of the weights is there, too.
    Backward,
    /// The gradient of the input alone, which the stage before waits for.
    InputGradient,
    /// The gradient of the weights, which only the optimiser waits for.
    WeightGradient,
}

impl Work {
    /// The letter that stands for it, as in PyTorch's pipeline schedules: F, B, I, W.
    pub fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Backward => 'B',
            Self::InputGradient => 'I',
            Self::WeightGradient => 'W',
        }
    }

    /// Whether a gradient goes to the chunk before when it is done.
    pub fn gives_gradient(self) -> bool {
        matches!(self, Self::Backward | Self::InputGradient)
    }
}

/// `work` of one micro-batch through one of the stage's chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Action {
    /// What.
    pub work: Work,
    /// Of which micro-batch, from 0.
    pub micro_batch: usize,
    /// Through which of the stage's chunks, from 0.
    pub chunk: usize,
    /// Whether it runs together with the action after it (DualPipe: a forward inside of a backward).
    pub with_next: bool,
}

impl Action {
    /// An action that runs alone.
    pub fn new(work: Work, micro_batch: usize, chunk: usize) -> Self {
        Self { work, micro_batch, chunk, with_next: false }
    }

    /// A forward.
    pub fn forward(micro_batch: usize, chunk: usize) -> Self {
        Self::new(Work::Forward, micro_batch, chunk)
    }

    /// A backward with both gradients.
    pub fn backward(micro_batch: usize, chunk: usize) -> Self {
        Self::new(Work::Backward, micro_batch, chunk)
    }

    /// An input gradient.
    pub fn input_gradient(micro_batch: usize, chunk: usize) -> Self {
        Self::new(Work::InputGradient, micro_batch, chunk)
    }

    /// A weight gradient.
    pub fn weight_gradient(micro_batch: usize, chunk: usize) -> Self {
        Self::new(Work::WeightGradient, micro_batch, chunk)
    }
}

/// `F3`: forward of micro-batch 3; `I3.1`: input gradient, in chunk 1; `F3+`: together with what comes after it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.work.letter(), self.micro_batch)?;
        if self.chunk > 0 {
            write!(f, ".{}", self.chunk)?;
        }
        f.write_str(if self.with_next { "+" } else { "" })
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an action: F3, B3, I3 or W3, in the second chunk F3.1");
        let (text, with_next) = text.strip_suffix('+').map_or((text, false), |text| (text, true));
        let mut letters = text.chars();
        let work = match letters.next() {
            Some('F') => Work::Forward,
            Some('B') => Work::Backward,
            Some('I') => Work::InputGradient,
            Some('W') => Work::WeightGradient,
            _ => return Err(wrong()),
        };
        let (micro_batch, chunk) = letters.as_str().split_once('.').unwrap_or((letters.as_str(), "0"));
        let number = |text: &str| text.parse::<u32>().map(|number| number as usize).map_err(|_| wrong());
        Ok(Self { work, micro_batch: number(micro_batch)?, chunk: number(chunk)?, with_next })
    }
}
