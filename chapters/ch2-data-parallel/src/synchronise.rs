//! The one communication of a data-parallel step: losses and gradients become those of the whole batch.
//!
//! Each rank's gradients are of `its sum / count of the whole batch`, so they only have to be **added**. A mean over ranks of means
//! over rows would be another number as soon as ranks hold unequally many targets.

use crate::Result;
use candle_core::{Device, Tensor};
use collective::{Communicator, ReduceOp};
use training::Named;
use training::accumulation::Loss;

/// Makes `loss` and `gradients`, which are of this rank's rows, those of all ranks: on every rank the same bits.
///
/// One all-reduce for the loss's sum and count, and one in place for each parameter, in the order of names: every rank must ask for
/// the same reductions in the same order, or the ranks would add gradients of different parameters.
///
/// # Errors
/// Another rank failed or asked for something else.
pub fn synchronise(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    *loss = sum_of_losses(group, *loss)?;
    for gradient in gradients.values_mut() {
        // Gradients that came as a view of something larger are copied once, to be added to in place.
        if !gradient.is_contiguous() {
            *gradient = gradient.force_contiguous()?;
        }
        group.all_reduce_in_place(gradient, ReduceOp::Sum)?;
    }
    Ok(())
}

/// Sum and count over all ranks. A count is exact in f64 up to 2⁵³ targets.
///
/// # Errors
/// Another rank failed or asked for something else.
pub fn sum_of_losses(group: &dyn Communicator, loss: Loss) -> Result<Loss> {
    let mine = Tensor::new(&[loss.sum, loss.count as f64], &Device::Cpu)?;
    let all = group.all_reduce(&mine, ReduceOp::Sum)?.to_vec1::<f64>()?;
    Ok(Loss { sum: all[0], count: all[1] as usize })
}
