//! A divided product on real ranks, forward and backward, beside the whole one.

use super::{Block, Communication, Cut, Held, Matrix, Product, Values};
use crate::core::Core;
use crate::{Error, Result};
use candle_core::{DType, Tensor};
use collective::volume::Place;
use collective::{Algorithm, Communicator, Options, ReduceOp, Sent, launch};

/// One divided product.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was divided.
    pub cut: Cut,
    /// Every rank, in order.
    pub ranks: Vec<RankOutcome>,
    /// Largest element of the whole Y, dX and dW.
    pub largest_element: f64,
}

/// What became of one rank.
#[derive(Clone, Debug)]
pub struct RankOutcome {
    /// Its blocks.
    pub held: Held,
    /// Bytes of the X, W and Y that it really holds.
    pub bytes: [u64; 3],
    /// What it had to send.
    pub predicted: Communication,
    /// What it sent in the forward.
    pub forward: Sent,
    /// What it sent in the backward.
    pub backward: Sent,
    /// Largest difference of Y, dX and dW from the whole product's.
    pub differences: [f64; 3],
}

impl Outcome {
    /// The largest difference of an element of Y, dX or dW on any rank; 0 only if all are equal. NaN if there is one.
    pub fn largest_difference(&self) -> f64 {
        let all = self.ranks.iter().flat_map(|rank| rank.differences);
        all.fold(0.0, larger)
    }
}

/// The larger number; NaN if one is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn largest(tensor: &Tensor) -> Result<f64> {
    let elements = tensor.abs()?.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
    Ok(elements.into_iter().fold(0.0, larger))
}

/// Y, dX and dW of a product with the gradient dY of its result.
struct Results {
    y: Tensor,
    dx: Tensor,
    dw: Tensor,
}

/// Computes `product` divided by `cut` on `ranks` ranks, each with only its own blocks of the `values`, and compares every block with
/// the whole product.
///
/// # Errors
/// A rank failed.
pub fn run(core: &Core, product: &Product, cut: Cut, ranks: usize, values: Values) -> Result<Outcome> {
    let block = |matrix| values.block(matrix, &product.whole(matrix));
    let (x, w, dy) = (block(Matrix::X)?, block(Matrix::W)?, block(Matrix::Y)?);
    let whole = Results { y: x.matmul(&w)?, dx: dy.matmul(&w.t()?)?, dw: x.t()?.matmul(&dy)? };
    drop((x, w, dy));
    let options = Options { algorithm: Algorithm::Ring, ..Options::default() };
    let ranks = launch(ranks, &options, |rank| {
        let group = rank.communicator().as_ref();
        let held = cut.held(core, product, group.size(), group.rank())?;
        let [x, w] = [(Matrix::X, &held.x), (Matrix::W, &held.w)].map(|(matrix, block)| values.block(matrix, block));
        let (x, w) = (x?, w?);
        let y = forward(cut, group, &x, &w)?;
        let after_forward = group.traffic().sent();
        let (dx, dw) = backward(cut, group, &held, (&x, &w), values)?;
        let all = group.traffic().sent();
        let differences = [
            difference(&y, &whole.y, &held.y)?,
            difference(&dx, &whole.dx, &held.x)?,
            difference(&dw, &whole.dw, &held.w)?,
        ];
        let bytes = [&x, &w, &y].map(|tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64);
        let place = Place::of(group.rank(), group.members(), &options.topology);
        Ok::<_, Error>(RankOutcome {
            bytes,
            predicted: cut.communication(product, options.algorithm, &place),
            forward: after_forward,
            backward: Sent { within: all.within - after_forward.within, between: all.between - after_forward.between },
            differences,
            held,
        })
    })?;
    let largest_element = [&whole.y, &whole.dx, &whole.dw].into_iter().map(largest).collect::<Result<Vec<_>>>()?;
    Ok(Outcome { cut, ranks, largest_element: largest_element.into_iter().fold(0.0, larger) })
}

/// Y, as far as this rank has it.
fn forward(cut: Cut, group: &dyn Communicator, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let y = x.matmul(w)?;
    Ok(match cut {
        // Own rows, finished.
        Cut::XByRows => y,
        // Own columns, finished; whoever comes next wants all of them.
        Cut::WByColumns => group.all_gather(&y, 1)?,
        // All elements, but of each only a summand.
        Cut::WByRows => group.all_reduce(&y, ReduceOp::Sum)?,
    })
}

/// dX and dW, as far as this rank has them.
fn backward(
    cut: Cut,
    group: &dyn Communicator,
    held: &Held,
    (x, w): (&Tensor, &Tensor),
    values: Values,
) -> Result<(Tensor, Tensor)> {
    // Of dY a rank needs the rows of its X and the columns of its W.
    let dy = Block { rows: held.x.rows.clone(), columns: held.w.columns.clone() };
    let dy = values.block(Matrix::Y, &dy)?;
    let (dx, dw) = (dy.matmul(&w.t()?)?, x.t()?.matmul(&dy)?);
    Ok(match cut {
        Cut::XByRows => (dx, group.all_reduce(&dw, ReduceOp::Sum)?),
        Cut::WByColumns => (group.all_reduce(&dx, ReduceOp::Sum)?, dw),
        Cut::WByRows => (dx, dw),
    })
}

/// Largest difference between a rank's block and the same block of the whole.
fn difference(found: &Tensor, whole: &Tensor, block: &Block) -> Result<f64> {
    let Block { rows, columns } = block;
    if found.elem_count() == 0 {
        return Ok(0.0);
    }
    let expected = whole.narrow(0, rows.start, rows.len())?.narrow(1, columns.start, columns.len())?;
    largest(&(found - expected)?)
}
