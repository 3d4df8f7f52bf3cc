//! Sizes in bytes, as people write and read them. The one place for the whole workspace.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// A number of bytes. Parses `64MiB`, `1.5 GiB`, `80GB`, `4096`; displays in binary units: `64 MiB`, `1.50 GiB`.
///
/// KiB, MiB, GiB, TiB, PiB are powers of 1024; kB, MB, GB, TB, PB powers of 1000 (as makers of devices count).
/// A fraction of a byte is cut off.
///
/// ```
/// let memory: ledger::Bytes = "1.5GiB".parse()?;
/// assert_eq!(memory.0, 3 << 29);
/// assert_eq!(memory.to_string(), "1.50 GiB");
/// # Ok::<(), ledger::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Units in lower case, as they are compared.
const UNITS: [(&str, u64); 12] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1000_u64.pow(2)),
    ("gb", 1000_u64.pow(3)),
    ("tb", 1000_u64.pow(4)),
    ("pb", 1000_u64.pow(5)),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
];

/// Digits after the point that are read; more would mean less than a byte of a PiB.
const MAX_FRACTION_DIGITS: usize = 18;

impl Bytes {
    /// In MiB.
    pub fn mebibytes(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }

    /// In GiB.
    pub fn gibibytes(self) -> f64 {
        self.0 as f64 / f64::from(1 << 30)
    }
}

impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::Bytes { text: text.to_owned(), problem: problem.to_owned() };
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(refuse("a size cannot be negative"));
        }
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let unit = unit.trim_start().to_ascii_lowercase();
        if number.is_empty() {
            return Err(refuse("a size begins with a number, as in 64MiB, 1.5GiB, 80GB or 4096"));
        }
        let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(match unit.as_str() {
                "k" | "m" | "g" | "t" | "p" => {
                    refuse("the unit can mean two things: write MiB (1024 x 1024) or MB (1000 x 1000)")
                }
                _ => refuse("the unit is not known: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB are"),
            });
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(refuse("the number is not a decimal number"));
        }
        if !fraction.is_empty() && scale == 1 {
            return Err(refuse("there is no fraction of a byte"));
        }
        if fraction.len() > MAX_FRACTION_DIGITS {
            return Err(refuse("too many digits after the point"));
        }
        bytes_of(whole, fraction, scale).map(Self).ok_or_else(|| refuse("the size is larger than 2^64 - 1 bytes"))
    }
}

/// `whole.fraction * scale`, exactly, cut to whole bytes. `None` if it does not fit.
fn bytes_of(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let digits = format!("{whole}{fraction}");
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let significant = digits.trim_start_matches('0');
    let number: u128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    u64::try_from(number.checked_mul(scale.into())? / divisor).ok()
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut power = (self.0.ilog2() / 10) as usize;
        let mut value = self.0 as f64 / 1024_f64.powi(power as i32);
        // What would be rounded to 1024.0 of a unit is 1.00 of the next.
        if value >= 1023.95 && power < NAMES.len() {
            (power, value) = (power + 1, 1.0);
        }
        let name = NAMES[power - 1];
        let text = if self.0.is_multiple_of(1 << (10 * power)) {
            format!("{value:.0} {name}")
        } else if value < 9.995 {
            format!("{value:.2} {name}")
        } else {
            format!("{value:.1} {name}")
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        let cases: [(&str, u64); 14] = [
            ("0", 0),
            ("4096", 4096),
            ("7B", 7),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            (" 1.5GiB ", 3 << 29),
            ("80GB", 80_000_000_000),
            ("1kB", 1000),
            ("0.1kB", 100),
            (".5KiB", 512),
            ("2.TiB", 2 << 40),
            ("18446744073709551615", u64::MAX),
            ("0000000000000000000000000000000000000000000000001KiB", 1024),
            // Not representable in f64: 9007199254740993 = 2^53 + 1.
            ("9007199254740.993kB", 9_007_199_254_740_993),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        let cases = [
            ("", "begins with a number"),
            ("MiB", "begins with a number"),
            ("-1MiB", "negative"),
            ("64M", "two things"),
            ("64 MiBs", "not known"),
            ("1e9", "not known"),
            ("NaN", "begins with a number"),
            (".", "decimal number"),
            ("1.2.3MiB", "decimal number"),
            ("1.5", "fraction of a byte"),
            ("0.0000000000000000001PiB", "too many digits"),
            ("18446744073709551616", "larger than"),
            ("16777216TiB", "larger than"),
            ("99999999999999999999999999999999999999999999PiB", "larger than"),
        ];
        for (text, reason) in cases {
            let message = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(message.contains(reason) && message.contains(text), "{text:?}: {message}");
        }
    }

    #[test]
    fn sizes_are_shown_in_binary_units() {
        let cases: [(u64, &str); 9] = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (64 << 20, "64 MiB"),
            (538_060_800, "513.1 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (80_000_000_000, "74.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text, "{bytes}");
        }
        assert_eq!(format!("[{:>8}]", Bytes(64 << 20)), "[  64 MiB]");
    }
}
