//! `--predict`: the learner's number first, then the result, then how far apart they are.
//!
//! Question and answer are on stderr, so that stdout holds results only. Without a terminal to ask on, it is said and the program
//! goes on.

use crate::{compared::Unit, numbers};
use std::io::{self, BufRead, IsTerminal, Write};

/// How often a text that is not a number is asked for again.
const TRIES: usize = 3;

/// Asks for a number. `None` if the learner skips the question (an empty line), or cannot be asked.
///
/// # Errors
/// The terminal cannot be read or written.
pub fn number(question: &str) -> io::Result<Option<f64>> {
    let stdin = io::stdin();
    let mut stderr = io::stderr();
    if !stdin.is_terminal() {
        // Who started the program without a terminal need not read stderr.
        let _ = writeln!(stderr, "--predict: {question} There is no terminal to ask on: going on without your number.");
        return Ok(None);
    }
    number_from(question, &mut stdin.lock(), &mut stderr)
}

/// One line that sets the learner's number beside the result.
pub fn beside(guess: f64, result: f64, unit: Unit) -> String {
    let judged = match result / guess {
        _ if guess == result => "exactly right".to_owned(),
        quotient if !quotient.is_finite() || quotient <= 0.0 => "they cannot be compared by a factor".to_owned(),
        quotient if (quotient - 1.0).abs() < 0.05 => "within 5 %".to_owned(),
        quotient if quotient > 1.0 => format!("{} too small", numbers::ratio(quotient)),
        quotient => format!("{} too large", numbers::ratio(1.0 / quotient)),
    };
    format!("your number: {}, the result: {}: {judged}", unit.text(guess), unit.text(result))
}

fn number_from(question: &str, answers: &mut impl BufRead, terminal: &mut impl Write) -> io::Result<Option<f64>> {
    for _ in 0..TRIES {
        write!(terminal, "{question} (a number such as 1500, 1.5e9, 1.5G or 64MiB; empty to skip): ")?;
        terminal.flush()?;
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(None);
        }
        match parse(line.trim()) {
            Some(number) => return Ok(Some(number)),
            None => writeln!(terminal, "{:?} is not a number", line.trim())?,
        }
    }
    Ok(None)
}

/// A plain number, one with a prefix of 1000 (`k`, `M`, `G`, `T`, `P`, `B` for 10⁹ as in `7B`), or a size in bytes.
fn parse(text: &str) -> Option<f64> {
    let plain =
        |text: &str| text.trim().replace([',', '_'], "").parse::<f64>().ok().filter(|number| number.is_finite());
    let prefixed = || {
        let prefix = text.chars().next_back()?;
        let scale = match prefix {
            'k' | 'K' => 1e3,
            'M' => 1e6,
            'G' | 'B' => 1e9,
            'T' => 1e12,
            'P' => 1e15,
            _ => return None,
        };
        plain(&text[..text.len() - prefix.len_utf8()]).map(|number| number * scale)
    };
    plain(text).or_else(prefixed).or_else(|| text.parse::<ledger::Bytes>().ok().map(|bytes| bytes.0 as f64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn answer(lines: &str) -> (Option<f64>, String) {
        let mut terminal = Vec::new();
        let number = number_from("How many?", &mut lines.as_bytes(), &mut terminal).unwrap();
        (number, String::from_utf8(terminal).unwrap())
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, number) in [
            ("1500\n", 1500.0),
            ("  1.5e9\r\n", 1.5e9),
            ("134,515,008", 134_515_008.0),
            ("7B", 7e9),
            ("1.5 G\n", 1.5e9),
            ("64MiB\n", f64::from(64 << 20)),
            ("-2\n", -2.0),
        ] {
            assert_eq!(answer(text).0, Some(number), "{text:?}");
        }
    }

    #[test]
    fn nonsense_is_asked_again_three_times_and_an_empty_line_skips() {
        let (number, terminal) = answer("many\nNaN\n12\n");
        assert_eq!(number, Some(12.0));
        assert_eq!(terminal.matches("How many?").count(), 3);
        assert_eq!(terminal.matches("is not a number").count(), 2);
        assert_eq!(answer("a\nb\nc\n12\n").0, None);
        assert_eq!(answer("\n12\n").0, None);
        assert_eq!(answer("").0, None, "end of input");
    }

    #[test]
    fn the_number_is_set_beside_the_result() {
        assert_eq!(beside(5e8, 134.5e6, Unit::Count), "your number: 500 M, the result: 134 M: 3.72 x too large");
        assert!(beside(1.0, 2.0, Unit::Seconds).ends_with("2.00 x too small"));
        assert!(beside(2.0, 2.0, Unit::Number).ends_with("exactly right"));
        assert!(beside(0.0, 2.0, Unit::Number).ends_with("by a factor"));
    }
}
