//! A ledger's bytes by kind, beside what a formula predicted; and whether all ranks of a run fit into this machine.

use crate::table::{NOT_MEASURED, Table};
use crate::{Error, Result};
use ledger::{Bytes, Kind, Snapshot, Usage};

/// Bytes by kind: predicted, held now, held at most; then the device as a whole. `snapshot` is `None` where nothing is measured.
///
/// A kind that is neither predicted nor was ever held has no row.
pub fn table(predicted: &[(Kind, u64)], snapshot: Option<&Snapshot>) -> Table {
    let mut table = Table::new(["memory", "predicted", "now", "peak"]);
    for kind in Kind::ALL {
        let expected: Option<u64> = sum(predicted, |of| of == kind);
        let usage = snapshot.map(|snapshot| snapshot.of(kind));
        if expected.is_some() || usage.is_some_and(|usage| usage.peak > 0) {
            let note = if kind.is_on_device() { "" } else { " (not on the device)" };
            table.push(row(&format!("{kind}{note}"), expected, usage));
        }
    }
    table.push(row("device", sum(predicted, Kind::is_on_device), snapshot.map(Snapshot::device)));
    table
}

/// Sum of the predicted bytes of some kinds; `None` if nothing was predicted for them.
fn sum(predicted: &[(Kind, u64)], wanted: impl Fn(Kind) -> bool) -> Option<u64> {
    predicted.iter().filter(|(kind, _)| wanted(*kind)).map(|(_, bytes)| *bytes).reduce(u64::saturating_add)
}

fn row(name: &str, predicted: Option<u64>, usage: Option<Usage>) -> [String; 4] {
    let measured = |figure: fn(Usage) -> u64| match usage {
        Some(usage) => Bytes(figure(usage)).to_string(),
        None => NOT_MEASURED.to_owned(),
    };
    let predicted = predicted.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
    [name.to_owned(), predicted, measured(|usage| usage.current), measured(|usage| usage.peak)]
}

/// Refuses `ranks` ranks that hold `each` bytes each and more than this machine has free: the system would end the program without a
/// word. `flag` is what asks for that many. Where the system does not say what is free, nothing is refused.
///
/// # Errors
/// They do not fit; says how many would.
pub fn check_machine(flag: &'static str, ranks: usize, each: u64) -> Result<()> {
    available().map_or(Ok(()), |free| fits(flag, ranks, each, free))
}

/// Refuses a run that holds `bytes` in all, which is more than this machine has free. `flag`, with the value `found`, is what asks for that
/// much. Where the system does not say what is free, nothing is refused.
///
/// # Errors
/// It does not fit.
pub fn check_run(flag: &'static str, found: usize, bytes: u64) -> Result<()> {
    match available() {
        Some(free) if bytes > free => {
            let expected = format!(
                "the run holds {}, and this machine has {} free; take fewer or shorter sequences at once, or a smaller model",
                Bytes(bytes),
                Bytes(free)
            );
            Err(Error::Flag { flag, found: found.to_string(), expected })
        }
        _ => Ok(()),
    }
}

fn fits(flag: &'static str, ranks: usize, each: u64, free: u64) -> Result<()> {
    let all = each.saturating_mul(ranks as u64);
    if all <= free {
        return Ok(());
    }
    let expected = format!(
        "each rank holds {}, all together {}, and this machine has {} free: {}",
        Bytes(each),
        Bytes(all),
        Bytes(free),
        match free / each.max(1) {
            0 => "not even one fits; take fewer or shorter sequences at once, or a smaller model".to_owned(),
            one => format!("{one} {} would fit", if one == 1 { "rank" } else { "ranks" }),
        }
    );
    Err(Error::Flag { flag, found: ranks.to_string(), expected })
}

/// Bytes that programs may still take, without the system having to swap.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_do_not_fit_into_the_machine_are_refused_with_the_number_that_would() {
        assert!(fits("--dp", 4, 1 << 20, 4 << 20).is_ok());
        let message = fits("--dp", 5, 1 << 20, 4 << 20).map_err(|error| error.to_string()).err().unwrap_or_default();
        for part in ["--dp 5", "5 MiB", "4 MiB free", "4 ranks would fit"] {
            assert!(message.contains(part), "{part} is missing: {message}");
        }
        assert!(fits("--dp", usize::MAX, u64::MAX, u64::MAX - 1).is_err(), "without overflow");
        assert!(available().is_none_or(|free| free > 1 << 20));
    }

    #[test]
    fn predictions_add_up_over_the_device_and_nothing_measured_is_said() {
        let predicted =
            [(Kind::Weights, 64 << 20), (Kind::KvCache, 1 << 20), (Kind::KvCache, 1 << 20), (Kind::Host, 7 << 20)];
        let text = table(&predicted, None).to_string();
        for part in ["weights", "64 MiB", "KV cache", "2 MiB", "host (not on the device)", "66 MiB", NOT_MEASURED] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        assert!(!text.contains("0 B") && !text.contains("gradients"), "\n{text}");
    }

    #[test]
    fn measured_bytes_stand_beside_the_prediction() {
        let text = table(&[(Kind::Weights, 5)], Some(&Snapshot::default())).to_string();
        let weights = text.lines().find(|line| line.contains("weights")).unwrap_or_default();
        assert!(weights.contains("5 B") && weights.contains("0 B"), "measured zeros are zeros\n{text}");
    }
}
