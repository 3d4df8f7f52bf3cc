//! The guided tour's voice: every stop goes question → prediction → run → measured → what to notice.
//!
//! A [`Guide`] writes plain text that fits into [`WIDTH`] columns: a stop's title, paragraphs behind labels, tables. With `--predict` it asks
//! for the learner's number after the question and before the prediction, and sets it beside the result. What the stops compute is
//! in `commands::tour`; it comes from the modules behind the other subcommands.

use lab::ask;
use lab::compared::Unit;
use std::fmt::Display;
use std::io::{self, Write};

/// Columns that the text keeps to.
pub const WIDTH: usize = 100;
/// Columns of a label.
const LABEL: usize = 12;

/// Leads from stop to stop.
#[derive(Debug)]
pub struct Guide<'a, W> {
    out: &'a mut W,
    predict: bool,
    stops: usize,
}

/// A question that was asked, with the learner's number if there is one.
#[derive(Debug)]
#[must_use = "the learner wants to see the own number beside the result"]
pub struct Guess(Option<f64>);

impl<'a, W: Write> Guide<'a, W> {
    /// A guide that writes to `out`, and asks for numbers if `predict`.
    pub fn new(out: &'a mut W, predict: bool) -> Self {
        Self { out, predict, stops: 0 }
    }

    /// Goes to the next stop.
    ///
    /// # Errors
    /// `out` cannot be written; so for all methods.
    pub fn stop(&mut self, title: &str) -> io::Result<()> {
        self.stops += 1;
        let rule = "─".repeat(WIDTH);
        writeln!(self.out, "\n{rule}\n{}. {title}\n{rule}\n", self.stops)
    }

    /// Asks. With `--predict` the learner answers before the tour goes on.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub fn question(&mut self, question: &str) -> io::Result<Guess> {
        self.labelled("Question", question)?;
        if !self.predict {
            return Ok(Guess(None));
        }
        self.out.flush()?;
        ask::number("Your number?").map(Guess)
    }

    /// What the formula says, before the run.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn prediction(&mut self, text: &str) -> io::Result<()> {
        self.labelled("Prediction", text)
    }

    /// What the run gave, and the learner's number beside it.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn measured(&mut self, text: &str, guess: &Guess, result: f64, unit: Unit) -> io::Result<()> {
        self.labelled("Measured", text)?;
        match guess.0 {
            Some(guess) => self.labelled("", &ask::beside(guess, result, unit)),
            None => Ok(()),
        }
    }

    /// What to notice, and the command that shows more.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn notice(&mut self, text: &str, command: &str) -> io::Result<()> {
        self.labelled("Notice", text)?;
        self.labelled("More", command)
    }

    /// A table or a figure, as it is.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn show(&mut self, block: &impl Display) -> io::Result<()> {
        writeln!(self.out, "\n{block}\n")
    }

    /// One line of a run that is still going on: seen at once.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", format!("{:LABEL$}{text}", "").trim_end())?;
        self.out.flush()
    }

    /// A paragraph behind a label, wrapped.
    ///
    /// # Errors
    /// As [`Guide::stop`].
    pub fn labelled(&mut self, label: &str, text: &str) -> io::Result<()> {
        for (index, line) in wrapped(text, WIDTH - LABEL).iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            writeln!(self.out, "{}", format!("{label:LABEL$}{line}").trim_end())?;
        }
        Ok(())
    }
}

/// Lines of at most `width` characters, broken at spaces; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn wrapping_keeps_every_word_in_order_and_no_line_is_too_long() {
        let text = "attention looks · back at every key of the cache, unbreakable-word-of-thirty-chars and on";
        for width in 1..60 {
            let lines = wrapped(text, width);
            assert_eq!(lines.join(" "), text, "width {width}");
            for line in &lines {
                assert!(line.chars().count() <= width || !line.contains(' '), "width {width}: {line}");
            }
        }
    }

    #[test]
    fn a_stop_reads_from_the_question_to_what_to_notice_and_numbers_itself() {
        let mut text = Vec::new();
        let mut guide = Guide::new(&mut text, false);
        for title in ["First", "Second"] {
            guide.stop(title).unwrap();
            let guess = guide.question("How many?").unwrap();
            guide.prediction("3").unwrap();
            guide.measured("3", &guess, 3.0, Unit::Count).unwrap();
            guide.notice(&"equal ".repeat(40), "cargo ch1 kv").unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        let mut at = 0;
        for part in ["1. First", "Question", "Prediction", "Measured", "Notice", "More", "cargo ch1 kv", "2. Second"] {
            at += text[at..].find(part).unwrap_or_else(|| panic!("{part} is missing or too early\n{text}"));
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "\n{text}");
        assert!(!text.contains("your number"), "nothing was asked");
    }

    #[test]
    fn a_number_that_was_guessed_stands_beside_the_result() {
        let mut text = Vec::new();
        let mut guide = Guide::new(&mut text, false);
        guide.measured("8 MiB", &Guess(Some(10.0)), 20.0, Unit::Count).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("your number: 10, the result: 20"), "{text}");
    }
}
