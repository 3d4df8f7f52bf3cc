//! The figures of a ledger at one moment, and how they are written.

use crate::{Bytes, Kind};
use std::fmt;

/// Bytes held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Now.
    pub current: u64,
    /// At most at once.
    pub peak: u64,
}

/// All figures of a ledger at one moment. `Display` writes the small table that messages show, in MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) kinds: [Usage; Kind::ALL.len()],
    pub(crate) device: Usage,
}

impl Snapshot {
    /// Bytes of one kind.
    pub fn of(&self, kind: Kind) -> Usage {
        self.kinds[kind as usize]
    }

    /// Bytes of all kinds but host. The peak is the peak of their sum, not the sum of their peaks.
    pub fn device(&self) -> Usage {
        self.device
    }

    /// Each kind with its bytes, in the order of [`Kind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Kind, Usage)> {
        Kind::ALL.into_iter().zip(self.kinds)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn row(f: &mut fmt::Formatter<'_>, name: &str, usage: Usage) -> fmt::Result {
            let [now, peak] = [usage.current, usage.peak].map(|bytes| Bytes(bytes).mebibytes());
            writeln!(f, "  {name:<14} {now:>11.2} {peak:>11.2}")
        }
        writeln!(f, "  {:<14} {:>11} {:>11}", "kind", "now (MiB)", "peak (MiB)")?;
        for (kind, usage) in self.iter().filter(|(kind, usage)| kind.is_on_device() && usage.peak > 0) {
            row(f, kind.name(), usage)?;
        }
        row(f, "device", self.device)?;
        row(f, "host, not on it", self.of(Kind::Host))
    }
}
