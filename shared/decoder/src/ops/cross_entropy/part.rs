//! The logits of a part of the vocabulary (Shoeybi et al., Megatron-LM, section 3): per row, the largest logit, the sum of
//! exponentials and the target's logit are reduced over the parts; the logits themselves stay where they are.

use super::IGNORED;
use super::rows::{exponentials, scale};
use crate::error::Result;
use crate::ops::real::{Elements, Real, by_type, is_native, largest, vectorised, wide};
use candle_core::{CpuStorage, D, DType, Device, InplaceOp1, Layout, Result as CandleResult, Tensor};
use std::sync::Mutex;

/// How one number per row and part becomes one number per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The largest.
    Max,
    /// The sum.
    Sum,
}

/// Which part of the vocabulary is here, and how numbers of all parts are reduced.
pub struct VocabularyPart<'a> {
    /// Id of the first entry here.
    pub first: usize,
    /// Entries of the whole vocabulary.
    pub vocab: usize,
    /// Reduces `[rows]` over all parts; the same on every rank.
    pub reduce: &'a dyn Fn(&Tensor, Reduction) -> Result<Tensor>,
}

impl std::fmt::Debug for VocabularyPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VocabularyPart").field("first", &self.first).field("vocab", &self.vocab).finish()
    }
}

impl VocabularyPart<'_> {
    /// Per row, the column of its target in a part of `width` entries; `None` if the target is in another part, or ignored.
    fn columns(&self, targets: &[u32], width: usize) -> Vec<Option<usize>> {
        let column = |&target: &u32| (target as usize).checked_sub(self.first).filter(|&column| column < width);
        targets.iter().map(|target| Some(target).filter(|&&target| target != IGNORED).and_then(column)).collect()
    }
}

/// Loss sum over all rows, and this part's columns of `softmax − one-hot` (zeros where ignored), from `logits [rows, part]`.
pub(super) fn loss_and_gradient(logits: Tensor, targets: &[u32], part: &VocabularyPart<'_>) -> Result<(f64, Tensor)> {
    let rows = Rows { targets, columns: part.columns(targets, logits.dim(1)?) };
    let (largest, own) = largest_and_own(&logits, &rows)?;
    let largest = (part.reduce)(&largest, Reduction::Max)?;
    let (exponentials, sums) = exponentials_and_sums(&logits, &largest)?;
    let sums = (part.reduce)(&sums, Reduction::Sum)?;
    let own = (part.reduce)(&own, Reduction::Sum)?;
    let gradient = gradient(exponentials, &sums, &rows)?.to_dtype(logits.dtype())?;
    Ok((loss(&largest, &sums, &own, targets)?, gradient))
}

/// Per row, the largest logit here, and the target's: 0 if it is in another part.
fn largest_and_own(logits: &Tensor, rows: &Rows<'_>) -> CandleResult<(Tensor, Tensor)> {
    if is_native(logits) {
        return by_type!(logits, largest_and_own_loop(logits, rows));
    }
    let wide = wide(logits)?;
    Ok((wide.max(D::Minus1)?, composed_own(&wide, rows)?))
}

/// e^(logit − largest), which takes the logits' memory where our loops run, and its sum per row.
fn exponentials_and_sums(logits: &Tensor, largest: &Tensor) -> CandleResult<(Tensor, Tensor)> {
    if is_native(logits) {
        return Ok((logits.clone(), by_type!(logits, exponentials_in_place(logits, largest))?));
    }
    let exponentials = wide(logits)?.broadcast_sub(&largest.unsqueeze(1)?)?.exp()?;
    let sums = exponentials.sum(D::Minus1)?;
    Ok((exponentials, sums))
}

/// `exponentials / sum − one-hot`, zeros where ignored.
fn gradient(exponentials: Tensor, sums: &Tensor, rows: &Rows<'_>) -> CandleResult<Tensor> {
    if is_native(&exponentials) {
        by_type!(exponentials, gradient_in_place(&exponentials, sums, rows))?;
        return Ok(exponentials);
    }
    composed_gradient(&exponentials, sums, rows)
}

struct Rows<'a> {
    targets: &'a [u32],
    /// Per row, where its target is here.
    columns: Vec<Option<usize>>,
}

/// Σ ln(sum) + largest − own over the rows that count, in f64.
fn loss(largest: &Tensor, sums: &Tensor, own: &Tensor, targets: &[u32]) -> CandleResult<f64> {
    let [largest, sums, own] = [largest, sums, own].map(|x| x.to_dtype(DType::F64)?.to_vec1::<f64>());
    let rows = largest?.into_iter().zip(sums?).zip(own?).zip(targets);
    let counted = rows.filter(|(_, target)| **target != IGNORED);
    Ok(counted.map(|(((largest, sum), own), _)| sum.ln() + largest - own).sum())
}

fn largest_and_own_loop<T: Real>(logits: &Tensor, rows: &Rows<'_>) -> CandleResult<(Tensor, Tensor)> {
    let elements = Elements::<T>::of(logits)?;
    let width = logits.dim(1)?;
    let row = |(row, column): (&[T], &Option<usize>)| {
        let largest = vectorised(
            #[inline(always)]
            || largest(row),
        );
        (largest, column.map_or(T::ZERO, |column| row[column]))
    };
    let (largest, own): (Vec<T>, Vec<T>) = elements.chunks_exact(width).zip(&rows.columns).map(row).unzip();
    let count = rows.targets.len();
    Ok((Tensor::from_vec(largest, count, &Device::Cpu)?, Tensor::from_vec(own, count, &Device::Cpu)?))
}

fn exponentials_in_place<T: Real>(logits: &Tensor, largest: &Tensor) -> CandleResult<Tensor> {
    let largest = Elements::<T>::of(largest)?;
    let width = logits.dim(1)?;
    let mut sums = Vec::with_capacity(largest.len());
    change(logits, |elements: &mut [T]| {
        for (row, &largest) in elements.chunks_exact_mut(width).zip(largest.iter()) {
            sums.push(vectorised(
                #[inline(always)]
                || exponentials(row, largest),
            ));
        }
    })?;
    let rows = sums.len();
    Tensor::from_vec(sums, rows, &Device::Cpu)
}

fn gradient_in_place<T: Real>(exponentials: &Tensor, sums: &Tensor, rows: &Rows<'_>) -> CandleResult<()> {
    let sums = Elements::<T>::of(sums)?;
    let width = exponentials.dim(1)?;
    change(exponentials, |elements: &mut [T]| {
        let all = elements.chunks_exact_mut(width).zip(sums.iter()).zip(rows.targets.iter().zip(&rows.columns));
        for ((row, &sum), (&target, column)) in all {
            if target == IGNORED {
                row.fill(T::ZERO);
                continue;
            }
            vectorised(
                #[inline(always)]
                || scale(row, T::ONE / sum),
            );
            if let Some(column) = *column {
                row[column] -= T::ONE;
            }
        }
    })
}

/// Changes the elements of a contiguous tensor that nobody else looks at.
fn change<T: Real>(tensor: &Tensor, change: impl FnMut(&mut [T]) + Send) -> CandleResult<()> {
    tensor.inplace_op1(&Change(Mutex::new(change), std::marker::PhantomData))
}

struct Change<T, F>(Mutex<F>, std::marker::PhantomData<fn(T)>);

impl<T: Real, F: FnMut(&mut [T]) + Send> InplaceOp1 for Change<T, F> {
    fn name(&self) -> &'static str {
        "rows_in_place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> CandleResult<()> {
        let elements = T::elements_mut(storage)?;
        let (Some((start, end)), Ok(mut change)) = (layout.contiguous_offsets(), self.0.lock()) else {
            candle_core::bail!("a contiguous tensor is needed here")
        };
        change(&mut elements[start..end]);
        Ok(())
    }
}

/// The targets' columns as indices, and 1 where they are here, `[rows, 1]` each.
fn composed_columns(like: &Tensor, rows: &Rows<'_>) -> CandleResult<(Tensor, Tensor)> {
    let shape = (rows.columns.len(), 1);
    let columns: Vec<u32> = rows.columns.iter().map(|column| column.unwrap_or(0) as u32).collect();
    let here: Vec<f32> = rows.columns.iter().map(|column| f32::from(column.is_some())).collect();
    let here = Tensor::from_vec(here, shape, like.device())?.to_dtype(like.dtype())?;
    Ok((Tensor::from_vec(columns, shape, like.device())?, here))
}

fn composed_own(logits: &Tensor, rows: &Rows<'_>) -> CandleResult<Tensor> {
    let (columns, here) = composed_columns(logits, rows)?;
    (logits.gather(&columns, 1)? * here)?.squeeze(1)
}

fn composed_gradient(exponentials: &Tensor, sums: &Tensor, rows: &Rows<'_>) -> CandleResult<Tensor> {
    let (columns, here) = composed_columns(exponentials, rows)?;
    let ids = Tensor::arange(0u32, exponentials.dim(1)? as u32, exponentials.device())?;
    let one_hot = ids.unsqueeze(0)?.broadcast_eq(&columns)?.to_dtype(here.dtype())?.broadcast_mul(&here)?;
    let counted: Vec<f32> = rows.targets.iter().map(|&target| f32::from(target != IGNORED)).collect();
    let counted = Tensor::from_vec(counted, (rows.targets.len(), 1), here.device())?.to_dtype(here.dtype())?;
    (exponentials.broadcast_div(&sums.unsqueeze(1)?)? - one_hot)?.broadcast_mul(&counted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ops::cross_entropy::rows;
    use crate::ops::real::composed;

    /// Two parts, one after the other: the second pass knows what the first one found.
    #[test]
    fn two_parts_of_a_vocabulary_have_the_loss_and_gradient_of_the_whole_in_both_forms() {
        let logits = Tensor::randn(0f64, 3., (5, 41), &Device::Cpu).unwrap();
        let targets = [3, IGNORED, 40, 17, 0];
        let (expected, whole) = rows::loss_and_gradient(logits.copy().unwrap(), &targets).unwrap();
        for (form, in_form) in [("loops", false), ("composed", true)] {
            let parts = [(0, 18), (18, 23)];
            let run = |first: usize, width: usize, reduce: &dyn Fn(&Tensor, Reduction) -> Result<Tensor>| {
                let part = VocabularyPart { first, vocab: 41, reduce };
                let logits = logits.narrow(1, first, width).unwrap().force_contiguous().unwrap();
                let work = || loss_and_gradient(logits, &targets, &part).unwrap();
                if in_form { composed(work) } else { work() }
            };
            // Each reduction in turn is answered from the whole logits.
            let largest = logits.max(1).unwrap();
            let sums = logits.broadcast_sub(&largest.unsqueeze(1).unwrap()).unwrap().exp().unwrap().sum(1).unwrap();
            let own: Vec<f64> = targets
                .iter()
                .zip(logits.to_vec2::<f64>().unwrap())
                .map(|(&target, row)| if target == IGNORED { 0. } else { row[target as usize] })
                .collect();
            let own = Tensor::from_vec(own, 5, &Device::Cpu).unwrap();
            for (first, width) in parts {
                let asked = Mutex::new(0);
                let reduce = |_: &Tensor, op: Reduction| {
                    let mut asked = asked.lock().unwrap();
                    *asked += 1;
                    Ok(match (*asked, op) {
                        (1, Reduction::Max) => largest.clone(),
                        (2, Reduction::Sum) => sums.clone(),
                        _ => own.clone(),
                    })
                };
                let (loss, gradient) = run(first, width, &reduce);
                assert_eq!(*asked.lock().unwrap(), 3, "three reductions");
                assert!((loss - expected).abs() < 1e-12, "{form}: {loss} {expected}");
                let difference = (gradient - whole.narrow(1, first, width).unwrap()).unwrap();
                let worst = difference.abs().unwrap().max_all().unwrap().to_scalar::<f64>().unwrap();
                assert!(worst < 1e-14, "{form}: largest difference {worst}");
            }
        }
    }
}
