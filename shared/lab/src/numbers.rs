//! Numbers as people read them. The one place; sizes in bytes are [`ledger::Bytes`].
//!
//! Three significant digits with a prefix of 1000 (`134 M`, `1.50 TFLOP/s`), and digits in groups where every one counts.

/// Prefixes of 1000, up and down.
const LARGE: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
const SMALL: [&str; 5] = ["", "m", "µ", "n", "p"];

/// `134515008` → `134,515,008`.
///
/// ```
/// assert_eq!(lab::numbers::grouped(134_515_008), "134,515,008");
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, without a prefix: `0.0123`, `1.50`, `134`, `12300`.
pub fn plain(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if !number.is_finite() {
        return not_finite(number);
    }
    if number.abs() < 1e-4 || number.abs() >= 1e15 {
        return format!("{number:.2e}");
    }
    // Digits after the point, counted on the rounded number: 9.996 is 10.0.
    let magnitude =
        format!("{:.2e}", number.abs()).rsplit_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    format!("{number:.*}", usize::try_from(2 - magnitude).unwrap_or(0))
}

/// A count: `17`, `1.50 k`, `134 M`, `70.6 G`.
pub fn count(number: f64) -> String {
    prefixed(number, "")
}

/// Floating-point operations: `269 MFLOP`.
pub fn flops(number: f64) -> String {
    prefixed(number, "FLOP")
}

/// Floating-point operations per second: `103 GFLOP/s`.
pub fn flop_rate(per_second: f64) -> String {
    prefixed(per_second, "FLOP/s")
}

/// Bytes per second in prefixes of 1000, as makers of devices state it: `24.4 GB/s`.
pub fn bandwidth(bytes_per_second: f64) -> String {
    prefixed(bytes_per_second, "B/s")
}

/// `38.1 tokens/s`.
pub fn rate(per_second: f64, what: &str) -> String {
    let number = if per_second < 10_000.0 { plain(per_second) } else { count(per_second) };
    format!("{number} {what}/s")
}

/// A duration: `12.3 µs`, `1.50 s`, `3 min 20 s`, `2 h 5 min`.
pub fn seconds(seconds: f64) -> String {
    // Rounded first, so that no text says `60.0 s` or `3 min 60 s`.
    let whole = seconds.round();
    match seconds {
        _ if !seconds.is_finite() => format!("{} s", not_finite(seconds)),
        _ if seconds.abs() < 59.95 => prefixed(seconds, "s"),
        _ if seconds < 0.0 => format!("-{}", self::seconds(-seconds)),
        _ if whole < 3600.0 => format!("{} min {} s", (whole / 60.0).floor(), whole % 60.0),
        _ => {
            let minutes = (seconds / 60.0).round();
            format!("{} h {} min", (minutes / 60.0).floor(), minutes % 60.0)
        }
    }
}

/// A quotient: `1.50 x`.
pub fn ratio(quotient: f64) -> String {
    format!("{} x", plain(quotient))
}

/// A share of one: `34.2 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { format!("{} %", not_finite(share)) }
}

fn not_finite(number: f64) -> String {
    match number {
        _ if number.is_nan() => "not a number",
        _ if number > 0.0 => "∞",
        _ => "-∞",
    }
    .to_owned()
}

/// Three significant digits, the prefix and the unit; whole numbers below 1000 stay whole.
fn prefixed(number: f64, unit: &str) -> String {
    let join = |number: String, prefix: &str| format!("{number} {prefix}{unit}").trim_end().to_owned();
    if !number.is_finite() {
        return join(not_finite(number), "");
    }
    // Whole things have no thousandths; seconds do.
    if number.abs() < 1000.0 && (number.fract() == 0.0 || number.abs() < 1.0 && unit != "s") {
        return join(if number.fract() == 0.0 { number.to_string() } else { plain(number) }, "");
    }
    let (mut value, mut index) = (number, 0);
    // From 999.5 on three digits are rounded up to 1000.
    while value.abs() >= 999.5 && index + 1 < LARGE.len() {
        (value, index) = (value / 1000.0, index + 1);
    }
    if index > 0 {
        return join(plain(value), LARGE[index]);
    }
    while value.abs() < 0.9995 && index + 1 < SMALL.len() {
        (value, index) = (value * 1000.0, index + 1);
    }
    join(plain(value), SMALL[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_three_digits_and_the_right_prefix() {
        let cases = [
            (count(0.0), "0"),
            (count(17.0), "17"),
            (count(999.0), "999"),
            (count(999.6), "1.00 k"),
            (count(134_515_008.0), "135 M"),
            (count(999_600_000.0), "1.00 G"),
            (count(1.5e21), "1500 E"),
            (count(0.25), "0.250"),
            (flops(269e6), "269 MFLOP"),
            (flop_rate(1.5e12), "1.50 TFLOP/s"),
            (bandwidth(24.4e9), "24.4 GB/s"),
            (rate(38.123, "tokens"), "38.1 tokens/s"),
            (rate(1_234_567.0, "tokens"), "1.23 M tokens/s"),
            (seconds(0.0), "0 s"),
            (seconds(12.34e-6), "12.3 µs"),
            (seconds(0.9999), "1.00 s"),
            (seconds(59.96), "1 min 0 s"),
            (seconds(199.6), "3 min 20 s"),
            (seconds(3599.7), "1 h 0 min"),
            (seconds(7500.0), "2 h 5 min"),
            (seconds(f64::INFINITY), "∞ s"),
            (ratio(1.4999), "1.50 x"),
            (percent(0.3421), "34.2 %"),
            (plain(9.996), "10.0"),
            (plain(-0.012_34), "-0.0123"),
            (plain(f64::NAN), "not a number"),
            (grouped(0), "0"),
            (grouped(999), "999"),
            (grouped(1000), "1,000"),
            (grouped(u64::MAX), "18,446,744,073,709,551,615"),
        ];
        for (index, (found, expected)) in cases.iter().enumerate() {
            assert_eq!(found, expected, "case {index}");
        }
    }
}
