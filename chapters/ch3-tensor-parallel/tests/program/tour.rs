//! The tour, and readers that go away.

use crate::{Run, program, run, workspace};
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
    assert!(!shown.contains("not equal") && !shown.contains("not as the formula") && !shown.contains("NaN"), "{shown}");
    assert_eq!(shown.matches('✗').count(), 1, "one device does not fit, and nothing else is wrong\n{shown}");
    assert!(shown.contains("The same text"), "{shown}");
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > WIDTH).collect();
    assert!(wide.is_empty(), "too wide: {wide:#?}");
    for figure in ["memory.svg", "links.svg"] {
        assert!(std::fs::metadata(folder.path().join(figure)).unwrap().len() > 1000, "{figure}");
    }
}

#[test]
fn without_a_terminal_predict_is_said_and_goes_on() {
    for line in ["communication --predict", "memory --tp 2 --predict", "long --predict"] {
        let run = run(line);
        assert!(run.stderr.contains("There is no terminal to ask on"), "{run}");
        assert!(!run.done().contains("your number"));
    }
}

/// `cargo ch3 … | head -c 1`.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    for line in ["split --tp 4", "communication --json", "long", "score --tp 2 --ids [[1,2,3],[4,5]]"] {
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

/// Every command that the lesson shows is one that the program has.
#[test]
fn the_lesson_shows_commands_that_there_are() {
    let lesson = std::fs::read_to_string(workspace().join("chapters/ch3-tensor-parallel/README.md")).unwrap();
    let help = run("--help").done();
    let shown: std::collections::BTreeSet<&str> = lesson
        .lines()
        .filter_map(|line| line.strip_prefix("cargo ch3 ")?.split_whitespace().next())
        .filter(|word| !word.starts_with('-'))
        .collect();
    assert!(shown.len() > 5, "{shown:?}");
    for command in shown {
        assert!(help.contains(&format!("\n  {command}")), "{command} is no command\n{help}");
    }
}
