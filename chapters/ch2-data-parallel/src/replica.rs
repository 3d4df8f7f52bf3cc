//! Whether all ranks hold the same model.
//!
//! Replicas that differ in one bit drift apart, silently: every rank's loss still goes down. So weights are compared when a run begins,
//! and now and then while it goes on, by a checksum of each parameter: a few bytes travel in place of the model.

use crate::{Error, Result};
use candle_core::{DType, Device, Tensor};
use collective::Communicator;
use std::hash::Hasher;
use training::Named;

/// An error that names the first parameter, and the first rank, that is not rank 0's. One all-gather of a number per parameter.
///
/// # Errors
/// [`Error::Diverged`], with `when` in it, on the rank that differs, whereupon the others stop; another rank failed.
pub fn check_equal(group: &dyn Communicator, parameters: &Named, when: &str) -> Result<()> {
    let mine = parameters.values().map(checksum).collect::<Result<Vec<i64>>>()?;
    let mine = Tensor::new(mine, &Device::Cpu)?.unsqueeze(0)?;
    let all = group.all_gather(&mine, 0)?.to_vec2::<i64>()?;
    let Some((first, others)) = all.split_first() else { return Ok(()) };
    for (position, name) in parameters.keys().enumerate() {
        if let Some(rank) = others.iter().position(|other| other[position] != first[position]) {
            let rank = rank + 1;
            // The rank that differs says so; the others, which know it as well, would only say it first.
            if group.rank() != rank {
                group.barrier()?;
            }
            return Err(Error::Diverged { rank, name: name.to_string(), when: when.to_owned() });
        }
    }
    Ok(())
}

/// A number that depends on every bit of `tensor` and on their order; NaNs and zeros of either sign count as what they are.
fn checksum(tensor: &Tensor) -> Result<i64> {
    let _kind = ledger::scope(ledger::Kind::Workspace);
    let flat = tensor.flatten_all()?;
    let mut hash = std::hash::DefaultHasher::new();
    match tensor.dtype() {
        DType::F64 => flat.to_vec1::<f64>()?.iter().for_each(|value| hash.write_u64(value.to_bits())),
        // A wider type holds each value of a narrower one, as it is.
        _ => flat.to_dtype(DType::F32)?.to_vec1::<f32>()?.iter().for_each(|value| hash.write_u32(value.to_bits())),
    }
    Ok(hash.finish() as i64)
}
