//! The tour, and readers that go away.

use crate::{Run, program, run};
use std::io::Read;
use std::process::Stdio;

/// Columns that the tour keeps to.
const WIDTH: usize = 100;

#[test]
fn the_tour_predicts_runs_and_compares_at_every_stop() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(&format!("--out {}", folder.path().display())).done();
    for part in ["Question", "Prediction", "Measured", "Notice", "More"] {
        assert_eq!(shown.lines().filter(|line| line.starts_with(part)).count(), 6, "{part}\n{shown}");
    }
    assert!(!shown.contains('✗') && !shown.contains("not as the formula") && !shown.contains("NaN"), "{shown}");
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > WIDTH).collect();
    assert!(wide.is_empty(), "too wide: {wide:#?}");
    for figure in ["partition.svg", "scale.svg", "memory.svg"] {
        assert!(std::fs::metadata(folder.path().join(figure)).unwrap().len() > 1000, "{figure}");
    }
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("with 1, 2 and 8 ranks: with any number"), "the wall stays\n{shown}");
}

#[test]
fn without_a_terminal_predict_is_said_and_goes_on() {
    let run = run("partition --predict");
    assert!(run.stderr.contains("There is no terminal to ask on"), "{run}");
    assert!(!run.done().contains("your number"));
}

/// `cargo ch2 … | head -c 1`.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    for line in ["partition", "partition --json", "scale --model llama-3-8b", "score --ids [[1,2,3],[4,5]]"] {
        let mut command = program();
        command.args(line.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
        // The reader is dropped here.
        let run = Run::of(format!("{line} | head -c 1"), &child.wait_with_output().unwrap());
        assert_eq!(run.code, Some(0), "{run}");
        assert!(!run.stderr.contains("error"), "{run}");
    }
}
