//! What an optimiser remembers between steps, and how it is saved.

use super::{Optimiser, Rule, describe, mismatch};
use crate::{Named, Result};
use candle_core::{DType, Tensor};
use ledger::Kind;
use std::collections::BTreeMap;

/// Suffixes of the saved tensors, PyTorch's names for the moments.
const FIRST: &str = ".exp_avg";
const SECOND: &str = ".exp_avg_sq";
const MASTER: &str = ".master";

/// State of one parameter, of the parameter's shape.
#[derive(Debug)]
pub(super) struct ParameterState {
    /// First and second moment: f64 for f64 parameters, else f32.
    pub(super) moments: Option<[Tensor; 2]>,
    /// The weight itself in f32, where the parameter is bf16 or f16: small updates would be rounded away there.
    pub(super) master: Option<Tensor>,
}

/// An optimiser's whole state, to be saved and restored.
#[derive(Clone, Debug, Default)]
pub struct OptimiserState {
    /// Steps taken.
    pub steps: u64,
    /// `NAME.exp_avg`, `NAME.exp_avg_sq` and, for low-precision weights, `NAME.master`, of every parameter.
    pub tensors: Named,
}

impl ParameterState {
    /// Zeros, and a copy of a low-precision weight.
    pub(super) fn new(rule: &Rule, parameter: &Tensor) -> Result<Self> {
        let _scope = ledger::scope(Kind::Optimiser);
        let dtype = state_dtype(parameter);
        let zeros = || Tensor::zeros(parameter.shape(), dtype, parameter.device());
        let moments = match rule {
            Rule::Sgd => None,
            Rule::AdamW(_) => Some([zeros()?, zeros()?]),
        };
        let master = (dtype != parameter.dtype()).then(|| parameter.detach().to_dtype(dtype)).transpose()?;
        Ok(Self { moments, master })
    }

    /// Whether this is the state of such a parameter under such a rule.
    pub(super) fn check(&self, name: &str, rule: &Rule, parameter: &Tensor) -> Result<()> {
        let dtype = state_dtype(parameter);
        if self.moments.is_some() != matches!(rule, Rule::AdamW(_))
            || self.master.is_some() != (dtype != parameter.dtype())
        {
            return Err(mismatch(
                "optimiser state of",
                name,
                "state of another rule or type",
                format!("that of {rule:?}"),
            ));
        }
        for tensor in self.moments.iter().flatten().chain(&self.master) {
            let fits = tensor.shape() == parameter.shape()
                && tensor.dtype() == dtype
                && tensor.device().same_device(parameter.device());
            if !fits {
                return Err(mismatch("optimiser state of", name, describe(tensor), describe(parameter)));
            }
        }
        Ok(())
    }

    fn tensors(&self) -> impl Iterator<Item = (&'static str, &Tensor)> {
        let moments = self.moments.iter().flat_map(|[first, second]| [(FIRST, first), (SECOND, second)]);
        moments.chain(self.master.iter().map(|master| (MASTER, master)))
    }
}

impl Optimiser {
    /// The state, to be saved. The tensors are the optimiser's own: write them before the next step changes them.
    pub fn state(&self) -> OptimiserState {
        let named = |(name, state): (&std::sync::Arc<str>, &ParameterState)| {
            let name = name.clone();
            state
                .tensors()
                .map(move |(suffix, tensor)| (format!("{name}{suffix}").into(), tensor.clone()))
                .collect::<Vec<_>>()
        };
        OptimiserState { steps: self.steps, tensors: self.states.iter().flat_map(named).collect() }
    }

    /// The optimiser that [`state`](Self::state) was taken of. Tensors are copied, one at a time.
    ///
    /// # Errors
    /// A setting is out of range, or a tensor is missing or belongs to another rule. Shapes are compared with the parameters in
    /// the next step.
    pub fn restore(rule: Rule, state: OptimiserState) -> Result<Self> {
        let _scope = ledger::scope(Kind::Optimiser);
        let mut optimiser = Self::new(rule)?;
        optimiser.steps = state.steps;
        let mut parts: BTreeMap<String, [Option<Tensor>; 3]> = BTreeMap::new();
        for (key, tensor) in state.tensors {
            let suffixes = [FIRST, SECOND, MASTER];
            let found = suffixes.iter().enumerate().find_map(|(slot, suffix)| Some((slot, key.strip_suffix(suffix)?)));
            let Some((slot, name)) = found else {
                return Err(mismatch(
                    "optimiser state",
                    &key,
                    "an unknown name",
                    format!("a name that ends in {suffixes:?}"),
                ));
            };
            parts.entry(name.to_owned()).or_default()[slot] = Some(tensor.copy()?);
        }
        for (name, [first, second, master]) in parts {
            let moments = match (&optimiser.rule, first, second) {
                (Rule::AdamW(_), Some(first), Some(second)) => Some([first, second]),
                (Rule::Sgd, None, None) => None,
                (rule, first, second) => {
                    let found = format!("{FIRST}: {}, {SECOND}: {}", first.is_some(), second.is_some());
                    return Err(mismatch("optimiser state of", &name, found, format!("that of {rule:?}")));
                }
            };
            optimiser.states.insert(name.into(), ParameterState { moments, master });
        }
        Ok(optimiser)
    }

    /// Bytes of the state: 8 per f32 parameter under AdamW, 12 per bf16 parameter, 16 per f64 parameter.
    pub fn state_bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
        self.states.values().flat_map(ParameterState::tensors).map(|(_, tensor)| bytes(tensor)).sum()
    }
}

/// The type that a parameter's update is computed in.
fn state_dtype(parameter: &Tensor) -> DType {
    if parameter.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
}
