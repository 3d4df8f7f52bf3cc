//! What a check says about an implementation that is not right.

use std::fmt;

/// Why an implementation does not pass, in the learner's terms: what was done, what came out, what was expected, and where to look.
///
/// The first line says what is wrong, all that fits into a table; the others give the numbers.
///
/// Any error turns into one, so that a check can use `?` on whatever it calls.
///
/// ```
/// use lab::exercises::Diagnosis;
///
/// fn check(double: &fn(u64) -> u64) -> Result<(), Diagnosis> {
///     let found = double(21);
///     Diagnosis::unless(found == 42, || format!("twice 21 gives {found}, not 42: is every unit counted twice?"))
/// }
/// assert!(check(&((|x| 2 * x) as fn(u64) -> u64)).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis(String);

impl Diagnosis {
    /// A diagnosis that says `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A diagnosis unless `holds`.
    ///
    /// # Errors
    /// The diagnosis.
    pub fn unless(holds: bool, text: impl FnOnce() -> String) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self(text())) }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The first line, at most `width` characters of it.
    pub fn line(&self, width: usize) -> String {
        let line = self.0.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        if line.chars().count() <= width {
            return line;
        }
        let kept: String = line.chars().take(width.saturating_sub(1)).collect();
        // Not in the middle of a word, if there is a space to end at.
        let end = kept.rfind(' ').unwrap_or(kept.len());
        format!("{}…", kept[..end].trim_end_matches([',', ':', ';', ' ']))
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Diagnosis {
    /// The error and its causes, without those that the text before already says.
    fn from(error: E) -> Self {
        let mut text = format!("it ended with an error: {error}");
        let mut cause = error.source();
        while let Some(source) = cause {
            let message = source.to_string();
            if !text.contains(&message) {
                text += &format!(", because {message}");
            }
            cause = source.source();
        }
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_line_is_never_longer_than_asked_for_and_ends_at_a_word() {
        let diagnosis = Diagnosis::new("rank 1 holds the rows of rank 0:  is `rank` used? ✓ é\nrows 4..8");
        assert_eq!(diagnosis.line(100), "rank 1 holds the rows of rank 0: is `rank` used? ✓ é");
        for width in 1..60 {
            let line = diagnosis.line(width);
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        assert_eq!(diagnosis.line(34), "rank 1 holds the rows of rank 0…");
        assert_eq!(Diagnosis::new("unbreakable").line(5), "unbr…");
    }

    #[test]
    fn an_error_becomes_a_diagnosis_with_its_causes() {
        let check = || -> Result<(), Diagnosis> {
            "many".parse::<u32>()?;
            Ok(())
        };
        assert_eq!(check().unwrap_err().text(), "it ended with an error: invalid digit found in string");
    }
}
