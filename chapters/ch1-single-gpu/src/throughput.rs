//! How long training takes on one device: the compute half of the first question.
//!
//! Training costs about 6 FLOPs per parameter and token (2 forward, 4 backward). Parameters and tokens of published models are published,
//! and so is what a device computes per second; the quotient is a time, and it is years.

use decoder::shape::hardware::{Hardware, Precision};
use decoder::shape::{ModelShape, Pairs, Recompute, six_n_flops};
use decoder::{Error, Result};
use serde::Serialize;

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;
/// Days of the month that [`devices_for`] is asked for.
pub const MONTH: f64 = 30.0;

/// A training run, in FLOPs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Training {
    /// Parameters that a token passes through: all of them, of routed experts only the chosen ones.
    pub parameters: u64,
    /// Tokens.
    pub tokens: u64,
    /// 6 · parameters · tokens. Exact below 2⁵³; beyond, the nearest number of 53 bits, as any of its uses would round it.
    pub flops: f64,
    /// Product by product from the shape, attention over sequences of [`Training::sequence`] tokens included.
    pub shape_flops: f64,
    /// Tokens of one sequence.
    pub sequence: u64,
}

impl Training {
    /// Training a model of this `shape` on `tokens` tokens, in sequences of `sequence`.
    ///
    /// # Errors
    /// `tokens` or `sequence` is 0, or a number does not fit in 128 bits.
    pub fn of(shape: &ModelShape, tokens: u64, sequence: u64) -> Result<Self> {
        let parameters = shape.active_parameters()?.total();
        let flops = six_n_flops(parameters, tokens)? as f64;
        let step = shape.training_step_flops(1, sequence, Pairs::Causal, Recompute::Nothing)?.total();
        let shape_flops = step as f64 * (tokens as f64 / sequence as f64);
        Ok(Self { parameters, tokens, flops, shape_flops, sequence })
    }

    /// Seconds on one device that computes `rate` FLOP per second, all the time.
    pub fn seconds(&self, rate: f64) -> f64 {
        self.flops / rate
    }
}

/// Devices at least that compute `rate` FLOP per second each, to be done in `days` days, if they divided the work without loss.
pub fn devices_for(training: &Training, days: f64, rate: f64) -> f64 {
    (training.seconds(rate) / (days * DAY)).ceil().max(1.0)
}

/// What a device computes per second in a real run: its peak times the utilisation.
///
/// # Errors
/// A utilisation below a millionth or above 1, or no published peak at `precision`.
pub fn rate(device: &Hardware, precision: Precision, utilisation: f64) -> Result<f64> {
    // Written so that NaN is refused.
    if !(1e-6..=1.0).contains(&utilisation) {
        return Err(Error::Setting {
            name: "--utilisation",
            found: utilisation.to_string(),
            expected: "at least 0.000001, at most 1; large runs report 0.3 to 0.5".into(),
        });
    }
    Ok(device.peak(precision)? as f64 * utilisation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use decoder::shape::published;

    fn training(name: &str) -> Training {
        let model = published(name).unwrap();
        Training::of(&model.shape, model.training.unwrap().tokens.get(), 4096).unwrap()
    }

    #[test]
    fn the_flops_are_those_that_the_papers_print() {
        // Brown et al., table D.1: 3.14e23; The Llama 3 Herd of Models, section 3.2: 3.8e25.
        assert!((training("GPT-3 175B").flops / 3.14e23 - 1.0).abs() < 0.005);
        assert!((training("Llama 3.1 405B").flops / 3.8e25 - 1.0).abs() < 0.01);
    }

    #[test]
    fn of_an_expert_model_only_the_chosen_experts_count() {
        let deepseek = training("DeepSeek-V3");
        let all = published("DeepSeek-V3").unwrap().shape.parameters().unwrap().total();
        assert!(deepseek.parameters * 10 < all, "{} of {all}", deepseek.parameters);
    }

    #[test]
    fn twice_the_devices_half_the_time_and_more_utilisation_fewer_devices() {
        let h100 = Hardware::named("H100").unwrap();
        let llama = training("Llama 2 70B");
        let mut before = f64::INFINITY;
        for utilisation in [0.1, 0.2, 0.4, 0.8, 1.0] {
            let rate = rate(&h100, Precision::Bf16, utilisation).unwrap();
            let devices = devices_for(&llama, MONTH, rate);
            assert!(devices < before, "{devices} devices at {utilisation}");
            assert!(llama.seconds(rate) / devices <= MONTH * DAY, "they are enough");
            assert!(llama.seconds(rate) / (devices - 1.0) > MONTH * DAY, "one fewer is not");
            before = devices;
        }
    }

    #[test]
    fn the_rule_of_thumb_is_near_the_sum_over_all_products() {
        // It counts the input embedding, which multiplies nothing, and leaves out attention.
        for name in ["Llama 2 7B", "Llama 2 70B", "GPT-3 175B", "DeepSeek-V3"] {
            let training = training(name);
            let ratio = training.shape_flops / training.flops;
            assert!((0.9..1.25).contains(&ratio), "{name}: {ratio}");
        }
    }

    #[test]
    fn utilisations_without_meaning_are_refused() {
        let h100 = Hardware::named("H100").unwrap();
        for utilisation in [0.0, -0.1, 1.01, f64::NAN, f64::INFINITY] {
            let message = rate(&h100, Precision::Bf16, utilisation).unwrap_err().to_string();
            assert!(message.contains("--utilisation"), "{message}");
        }
        assert!(rate(&Hardware::named("M1 Max").unwrap(), Precision::Bf16, 0.4).is_err());
    }
}
