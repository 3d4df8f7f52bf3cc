//! Exercise 1.9: how many devices train a model in time. The check asks whether that many are done, and whether one fewer would be, too.

use crate::core::DevicesFor;
use crate::throughput::{DAY, Training};
use crate::{homework, throughput};
use decoder::random::Rng;
use decoder::shape::published;
use lab::exercises::{Bug, Diagnosis, Exercise};
use lab::numbers::count;

/// The table.
pub const DEVICES_FOR: Exercise<DevicesFor> = Exercise {
    id: "1.9",
    title: "devices that train a model in time",
    reference: throughput::devices_for,
    homework: homework::devices_for,
    stub: super::stub(&["devices_for"]),
    hints: &[
        "A parameter costs 2 FLOP per token in the forward, and twice that in the backward: once for the gradient of the input, once for \
         its own.",
        "6 · parameters · tokens FLOP in all. How many does one device do in `days` days, if it does `rate` of them per second?",
        "A part of a device cannot be had: round up.",
    ],
    bugs: &[
        Bug {
            name: "devices-forward-only",
            what: "the backward forgotten",
            implementation: forward_only,
            diagnosis: "a third of them",
        },
        Bug {
            name: "devices-rounded-down",
            what: "rounded down",
            implementation: rounded_down,
            diagnosis: "one device too few",
        },
        Bug {
            name: "devices-in-parts",
            what: "not rounded at all",
            implementation: in_parts,
            diagnosis: "whole devices",
        },
        Bug {
            name: "devices-hours-for-days",
            what: "days taken for hours",
            implementation: hours_for_days,
            diagnosis: "24 times",
        },
    ],
    check,
};

const MODELS: [&str; 4] = ["Llama 2 7B", "Llama 2 70B", "GPT-3 175B", "DeepSeek-V3"];

fn check(devices_for: &DevicesFor) -> Result<(), Diagnosis> {
    let mut rng = Rng::new(19);
    for name in MODELS {
        let tokens = (1 + rng.below(9)) as u64 * 100_000_000_000;
        let training = Training::of(&published(name)?.shape, tokens, 4096)?;
        let (days, rate) = (7.0 + rng.below(80) as f64, (1.0 + 3.0 * rng.uniform()) * 1e14);
        let found = devices_for(&training, days, rate);
        let needed = 6.0 * training.parameters as f64 * tokens as f64 / (rate * days * DAY);
        let is_right = found.fract() == 0.0 && (needed..needed + 1.0).contains(&found);
        Diagnosis::unless(is_right, || {
            format!(
                "{}\n{name}: {} parameters a token uses, {} tokens, {} days, {} FLOP per second and device:\n\
                 you say {} devices; the work is that of {}",
                guess(found, needed),
                count(training.parameters as f64),
                count(tokens as f64),
                count(days),
                count(rate),
                count(found),
                count(needed)
            )
        })?;
    }
    // Less than one device's work still takes a device.
    let small = Training::of(&published("SmolLM2 135M")?.shape, 1_000_000, 512)?;
    let found = devices_for(&small, 30.0, 1e15);
    Diagnosis::unless(found == 1.0, || {
        format!(
            "a little work takes one device, too\nSmolLM2 135M, a million tokens in a month: you say {} devices",
            count(found)
        )
    })
}

/// What may be wrong with `found` devices, where the work is that of `needed`.
fn guess(found: f64, needed: f64) -> &'static str {
    let near = |factor: f64| (found / (factor * needed) - 1.0).abs() < 0.05;
    match () {
        () if found.fract() != 0.0 => "only whole devices can be had",
        () if near(1.0 / 3.0) => "that is a third of them: the backward computes, too",
        () if near(24.0) => "that is 24 times as many: is a day taken for an hour?",
        () if found >= needed => "fewer devices are enough",
        () if found > needed - 1.0 => "that is one device too few: they are not done in time",
        () => "those are too few: they are not done in time",
    }
}

fn forward_only(training: &Training, days: f64, rate: f64) -> f64 {
    throughput::devices_for(training, days, 3.0 * rate)
}

fn rounded_down(training: &Training, days: f64, rate: f64) -> f64 {
    in_parts(training, days, rate).floor()
}

fn in_parts(training: &Training, days: f64, rate: f64) -> f64 {
    training.seconds(rate) / (days * DAY)
}

fn hours_for_days(training: &Training, days: f64, rate: f64) -> f64 {
    throughput::devices_for(training, days / 24.0, rate)
}
