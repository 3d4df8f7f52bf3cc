//! Inputs that every rank can compute for every other, a seeded generator, and the watchdog.

use candle_core::{DType, Device, Tensor};
use std::sync::mpsc;
use std::time::Duration;

/// SplitMix64 (Steele et al., 2014).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A seed that differs from run to run; a message shows it. `COLLECTIVE_SEED` repeats one.
pub(crate) fn fresh_seed() -> u64 {
    let given = std::env::var("COLLECTIVE_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Random(now.as_nanos() as u64).next()
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    /// Halves from 0 to 3.5 (whole numbers for integers): sums over eight ranks are exact in every dtype.
    Dyadic,
    /// From −1 to 1.
    Real,
}

/// Element `index` of the operand of `rank`, before rounding to a dtype.
pub(crate) fn element(data: Data, dtype: DType, seed: u64, rank: usize, index: usize) -> f64 {
    let bits = Random(seed ^ ((rank as u64) << 40) ^ index as u64).next();
    match (data, dtype) {
        (_, DType::U32) => (bits % 8) as f64,
        (Data::Dyadic, DType::I64) => (bits % 8) as f64 - 3.0,
        (Data::Dyadic, _) => (bits % 8) as f64 * 0.5,
        _ => (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0,
    }
}

/// The operand of `rank`.
pub(crate) fn operand(data: Data, dtype: DType, seed: u64, rank: usize, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|index| element(data, dtype, seed, rank, index)).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

/// All values, exactly.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    // candle stumbles over views without elements.
    if tensor.elem_count() == 0 {
        return Vec::new();
    }
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// Runs `test` on a thread of its own and fails if it takes longer than `seconds`: a hang is then a failure, not a
/// silent runner.
pub(crate) fn watched<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::Builder::new().name("watched".to_owned()).spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    let thread = thread.unwrap();
    if let Err(mpsc::RecvTimeoutError::Timeout) = wait.recv_timeout(Duration::from_secs(seconds)) {
        panic!("still running after {seconds} s: a hang");
    }
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
