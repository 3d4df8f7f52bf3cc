//! A few rows times a weight: the product of every decode step.
//!
//! With one token per sequence the product is limited by reading the weight once. candle's matmul does that on one
//! thread only, whatever the number of rows below eight; here the weight's rows are shared out over the current rayon
//! pool, and weights stored in bf16 or f16 are widened in registers, so that half the bytes are read. SmolLM2-135M, beside
//! candle's in one run: 0.99-1.06 times as fast with one thread, where both wait for memory; with two threads 0.9-1.4 on a busy
//! machine, 1.07 at its quietest; bf16 weights decode at 1.9-2.0 times f32
//! (`cargo bench --profile dev -p ch1-single-gpu --bench inference`).

use super::real::{Elements, Real, dot, folded, sum_over, vectorised};
use candle_core::{DType, Device, Result, Tensor, bail};
use half::{bf16, f16};
use rayon::prelude::*;

/// Up to this many rows, reading the weight once for all of them beats a blocked matrix product.
pub(super) const FEW_ROWS: usize = 8;

/// A weight's stored element, and its dot product with activations.
trait Stored: candle_core::WithDType {
    /// Σ weight_i · x_i, summed in f32.
    fn dot(weight: &[Self], x: &[f32]) -> f32;
}

impl Stored for f32 {
    #[inline(always)]
    fn dot(weight: &[Self], x: &[f32]) -> f32 {
        dot(weight, x)
    }
}

impl Stored for bf16 {
    #[inline(always)]
    fn dot(weight: &[Self], x: &[f32]) -> f32 {
        const LANES: usize = super::real::LANES;
        let mut sums = [0f32; LANES];
        let (w_chunks, x_chunks) = (weight.chunks_exact(LANES), x.chunks_exact(LANES));
        let rest: f32 = w_chunks.remainder().iter().zip(x_chunks.remainder()).map(|(w, x)| w.to_f32() * x).sum();
        for (w, x) in w_chunks.zip(x_chunks) {
            for lane in 0..LANES {
                sums[lane] += f32::from_bits(u32::from(w[lane].to_bits()) << 16) * x[lane];
            }
        }
        folded(sums) + rest
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn dot(weight: &[Self], x: &[f32]) -> f32 {
        use half::slice::HalfFloatSliceExt;
        let mut wide = [0f32; 64];
        let mut total = 0.;
        for (w, x) in weight.chunks(64).zip(x.chunks(64)) {
            let wide = &mut wide[..w.len()];
            w.convert_to_f32_slice(wide);
            total += sum_over(wide, x, |w, x| w * x);
        }
        total
    }
}

/// `x [rows, in] · weightᵀ`, weight `[out, in]` in f32, bf16 or f16, x in f32; rows ≤ [`FEW_ROWS`].
pub(super) fn few_rows(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    match weight.dtype() {
        DType::F32 => product::<f32>(x, weight),
        DType::BF16 => product::<bf16>(x, weight),
        DType::F16 => product::<f16>(x, weight),
        other => bail!("few_rows: weights are f32, bf16 or f16, found {other:?}"),
    }
}

fn product<W: Stored>(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let outputs = weight.dim(0)?;
    let (x, weight) = (Elements::<f32>::of(x)?, Elements::<W>::of(weight)?);
    let (x, weight): (&[f32], &[W]) = (&x, &weight);
    // One output per weight row and row of x, weight rows outermost: [out, rows].
    let mut by_output = vec![f32::ZERO; outputs * rows];
    let share = outputs.div_ceil(rayon::current_num_threads()).max(1);
    let fill = |first: usize, part: &mut [f32]| {
        vectorised(
            #[inline(always)]
            || {
                for (index, sums) in part.chunks_exact_mut(rows).enumerate() {
                    let weight = &weight[(first + index) * width..(first + index + 1) * width];
                    for (sum, x) in sums.iter_mut().zip(x.chunks_exact(width)) {
                        *sum = W::dot(weight, x);
                    }
                }
            },
        );
    };
    if share >= outputs || outputs * width < 1 << 16 {
        fill(0, &mut by_output);
    } else {
        by_output.par_chunks_mut(share * rows).enumerate().for_each(|(chunk, part)| fill(chunk * share, part));
    }
    if rows == 1 {
        return Tensor::from_vec(by_output, (1, outputs), &Device::Cpu);
    }
    let mut by_row = vec![f32::ZERO; outputs * rows];
    for (row, out) in by_row.chunks_exact_mut(outputs).enumerate() {
        for (value, column) in out.iter_mut().zip(by_output.chunks_exact(rows)) {
            *value = column[row];
        }
    }
    Tensor::from_vec(by_row, (rows, outputs), &Device::Cpu)
}
