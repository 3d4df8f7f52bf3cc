//! The two types that our CPU loops compute in, and slices of tensors to run them on.
//!
//! On CPU activations are f32, or f64 for an f64 model; weights stored as bf16 or f16 are widened where they are used.
//! The loops are plain Rust: sums run over an array of accumulators so that the compiler vectorises them, and
//! [`vectorised`] compiles them for the widest vectors that this processor has.

use candle_core::{CpuStorage, DType, Result, Storage, StorageRef, Tensor, WithDType, bail};
use std::ops::{Add, AddAssign, Deref, Div, Mul, MulAssign, Neg, Range, Sub, SubAssign};

/// f32 or f64.
pub(super) trait Real:
    WithDType
    + Copy
    + PartialOrd
    + Default
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
    + SubAssign
{
    const ZERO: Self;
    const ONE: Self;
    const LOWEST: Self;

    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn elements_mut(storage: &mut CpuStorage) -> Result<&mut [Self]>;
}

impl Real for f64 {
    const ZERO: Self = 0.;
    const ONE: Self = 1.;
    const LOWEST: Self = f64::NEG_INFINITY;

    fn exp(self) -> Self {
        f64::exp(self)
    }

    fn ln(self) -> Self {
        f64::ln(self)
    }

    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }

    fn elements_mut(storage: &mut CpuStorage) -> Result<&mut [Self]> {
        match storage {
            CpuStorage::F64(elements) => Ok(elements),
            _ => bail!("a tensor of f64 on the CPU is needed here"),
        }
    }
}

impl Real for f32 {
    const ZERO: Self = 0.;
    const ONE: Self = 1.;
    const LOWEST: Self = f32::NEG_INFINITY;

    /// e^x to about one unit in the last place, without a call or a branch so that loops over it vectorise: 2^n · e^r with
    /// |r| ≤ ln 2 / 2 and a degree-6 polynomial (Cephes' expf). Nothing here may panic, an overflow check included: one
    /// such branch, and the loop is not vectorised (silu of a training step: 34 ms, 4 ms without).
    #[inline(always)]
    fn exp(self) -> Self {
        const LOG2_E: f32 = std::f32::consts::LOG2_E;
        /// ln of the smallest normal number: below it, 0.
        const LOWEST: f32 = -87.336_54;
        /// ln of the largest number: above it, ∞.
        const HIGHEST: f32 = 88.722_83;
        /// Adding 1.5 · 2^23 rounds to the nearest integer, which is then the low bits of the sum.
        const ROUND: f32 = 12_582_912.;
        let x = if self < LOWEST { LOWEST } else { self };
        let x = if x > HIGHEST { HIGHEST } else { x };
        let rounded = x * LOG2_E + ROUND;
        let n = rounded - ROUND;
        let r = (x - n * (355. / 512.)) - n * -2.121_944_4e-4;
        let p = 1.987_569_1e-4;
        let p = p * r + 1.398_199_9e-3;
        let p = p * r + 8.333_452e-3;
        let p = p * r + 4.166_579_6e-2;
        let p = p * r + 0.166_666_65;
        let p = p * r + 0.5;
        let y = p * (r * r) + r + 1.;
        // n is added to the exponent of y; the bits of ROUND are shifted out. NaN has gone through y.
        let scaled = f32::from_bits(y.to_bits().wrapping_add(rounded.to_bits() << 23));
        let scaled = if self < LOWEST { 0. } else { scaled };
        let scaled = if self > HIGHEST { f32::INFINITY } else { scaled };
        if self.is_nan() { self } else { scaled }
    }

    fn ln(self) -> Self {
        f32::ln(self)
    }

    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }

    fn elements_mut(storage: &mut CpuStorage) -> Result<&mut [Self]> {
        match storage {
            CpuStorage::F32(elements) => Ok(elements),
            _ => bail!("a tensor of f32 on the CPU is needed here"),
        }
    }
}

/// Runs `f` compiled for the widest vectors of this processor. `f` must be `#[inline(always)]` down to its loops.
#[inline(always)]
pub(super) fn vectorised<R>(f: impl FnOnce() -> R) -> R {
    struct Run<F>(F);
    impl<R, F: FnOnce() -> R> pulp::NullaryFnOnce for Run<F> {
        type Output = R;

        #[inline(always)]
        fn call(self) -> R {
            (self.0)()
        }
    }
    pulp::Arch::new().dispatch(Run(f))
}

/// Accumulators of a sum: enough for two vectors of the widest kind.
pub(super) const LANES: usize = 32;

/// Σ f(a_i, b_i).
#[inline(always)]
pub(super) fn sum_over<T: Real>(a: &[T], b: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut sums = [T::ZERO; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += f(a[lane], b[lane]);
        }
    }
    let mut total = T::ZERO;
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        total += f(a, b);
    }
    total + folded(sums)
}

/// The sum of the accumulators, eight at a time.
///
/// How this is written decides how the compiler vectorises the loop before it, and with that how fast a weight streams from
/// memory (rows of 576 f32, 1 thread, the same minute): one after the other 14.5 GB/s, so 20 GB/s; in the cache it is the
/// other way round, 65 and 34 GB/s, which no large weight is.
#[inline(always)]
pub(super) fn folded<T: Real>(sums: [T; LANES]) -> T {
    let mut eight = [T::ZERO; 8];
    for sums in sums.chunks_exact(8) {
        for (total, &sum) in eight.iter_mut().zip(sums) {
            *total += sum;
        }
    }
    let [a, b, c, d, e, f, g, h] = eight;
    ((a + e) + (b + f)) + ((c + g) + (d + h))
}

/// The largest element, [`Real::LOWEST`] if there is none. A NaN is passed over; whoever sums afterwards sees it.
#[inline(always)]
pub(super) fn largest<T: Real>(values: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let mut lanes = [T::LOWEST; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(T::LOWEST, |a, &b| larger(a, b));
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    lanes.into_iter().fold(rest, larger)
}

/// Σ a_i · b_i.
#[inline(always)]
pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    sum_over(a, b, |a, b| a * b)
}

/// The elements of a contiguous CPU tensor, read-locked.
pub(super) struct Elements<'a, T> {
    storage: StorageRef<'a>,
    range: Range<usize>,
    of: std::marker::PhantomData<T>,
}

impl<'a, T: WithDType> Elements<'a, T> {
    pub(super) fn of(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("a contiguous tensor is needed here") };
        let elements = Self { storage, range: start..end, of: std::marker::PhantomData };
        elements.slice()?;
        Ok(elements)
    }

    fn slice(&self) -> Result<&[T]> {
        match &*self.storage {
            Storage::Cpu(storage) => Ok(&storage.as_slice::<T>()?[self.range.clone()]),
            _ => bail!("a tensor on the CPU is needed here"),
        }
    }
}

impl<T: WithDType> Deref for Elements<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // `of` has checked device and type.
        self.slice().unwrap_or(&[])
    }
}

/// Whether our loops compute tensors of this device and type.
pub(super) fn is_native(tensor: &Tensor) -> bool {
    #[cfg(test)]
    if COMPOSED.get() {
        return false;
    }
    tensor.device().is_cpu() && matches!(tensor.dtype(), DType::F32 | DType::F64)
}

/// Calls a generic function with `T` = f32 or f64, whichever the tensor has.
macro_rules! by_type {
    ($tensor:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $tensor.dtype() {
            candle_core::DType::F32 => $function::<f32>($($argument),*),
            candle_core::DType::F64 => $function::<f64>($($argument),*),
            other => candle_core::bail!("{} computes in f32 or f64, found {other:?}", stringify!($function)),
        }
    };
}
pub(super) use by_type;

#[cfg(test)]
thread_local! {
    static COMPOSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `f` as on a device that our loops do not run on, so that its forms are tested on CPU.
#[cfg(test)]
pub(super) fn composed<R>(f: impl FnOnce() -> R) -> R {
    COMPOSED.set(true);
    let result = f();
    COMPOSED.set(false);
    result
}

/// `x` in a type to add up in: f64 stays, all others become f32. (bf16 cannot count past 256.)
pub(super) fn wide(x: &Tensor) -> Result<Tensor> {
    if x.dtype() == DType::F64 { Ok(x.clone()) } else { x.to_dtype(DType::F32) }
}

/// Bytes of a tensor's elements.
pub(super) fn bytes(tensor: &Tensor) -> u64 {
    (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place_over_its_whole_range() {
        let mut x = -87.3f32;
        while x < 88.72 {
            let (exact, ours) = (f64::from(x).exp(), f64::from(Real::exp(x)));
            assert!((ours / exact - 1.).abs() < 2.4e-7, "exp({x}) = {ours}, exactly {exact}");
            x += 0.000_97;
        }
    }

    #[test]
    fn exp_of_what_has_no_finite_result() {
        let exp = |x: f32| Real::exp(x);
        assert_eq!((exp(-88.), exp(f32::NEG_INFINITY)), (0., 0.));
        assert_eq!((exp(88.73), exp(f32::INFINITY)), (f32::INFINITY, f32::INFINITY));
        assert!(exp(f32::NAN).is_nan());
        assert_eq!((exp(0.), exp(-0.)), (1., 1.));
    }

    #[test]
    fn the_largest_is_found_wherever_it_stands() {
        for length in [1usize, 31, 32, 33, 100] {
            for place in 0..length {
                let values: Vec<f32> = (0..length).map(|i| if i == place { -1. } else { -2. - i as f32 }).collect();
                assert_eq!(largest(&values), -1., "{place} of {length}");
            }
        }
        assert_eq!(largest::<f64>(&[]), f64::NEG_INFINITY);
    }
}
