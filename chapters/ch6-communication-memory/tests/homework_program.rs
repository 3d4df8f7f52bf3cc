//! `cargo homework` from the shell. A learner's fork runs this too: nothing here depends on how far the learner is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::Command;

/// Exit code, stdout, stderr.
fn homework(line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homework"));
    let output = command.args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_list_the_report_and_its_document_have_every_exercise_of_every_chapter() {
    let (code, list, stderr) = homework("");
    assert_eq!(code, Some(0), "{stderr}");
    let (_, report, _) = homework("report");
    let (code, document, stderr) = homework("report --json");
    assert_eq!(code, Some(0), "{stderr}");
    let document: Value = serde_json::from_str(&document).unwrap();
    let rows = document["exercises"].as_array().unwrap();
    assert_eq!(rows.len(), ch6_communication_memory::exercises::exercises().len());
    for (row, exercise) in rows.iter().zip(ch6_communication_memory::exercises::exercises()) {
        let about = exercise.about();
        assert_eq!((row["id"].as_str(), row["title"].as_str()), (Some(about.id), Some(about.title)));
        let state = row["state"].as_str().unwrap();
        for text in [&list, &report] {
            let line = text.lines().find(|line| line.contains(about.title)).unwrap();
            assert!(line.contains(about.id) && line.contains(state), "{line}");
        }
    }
}

#[test]
fn every_hint_of_every_exercise_can_be_had_and_no_other() {
    for exercise in ch6_communication_memory::exercises::exercises() {
        let about = exercise.about();
        for (index, hint) in about.hints.iter().enumerate() {
            let (code, stdout, stderr) = homework(&format!("hint {} {}", about.id, index + 1));
            assert_eq!(code, Some(0), "{stderr}");
            assert!(stdout.contains(hint) && stdout.contains(&format!("of {}", about.hints.len())), "{stdout}");
        }
        for number in [0, about.hints.len() + 1] {
            let (code, _, stderr) = homework(&format!("hint {} {number}", about.id));
            assert_eq!(code, Some(2), "{stderr}");
            assert!(stderr.contains(&format!("1 to {}", about.hints.len())), "{stderr}");
        }
    }
}

#[test]
fn an_exercise_that_there_is_not_is_refused_with_those_that_there_are() {
    for command in ["hint", "check", "reset"] {
        let (code, _, stderr) = homework(&format!("{command} 0.1"));
        assert_eq!(code, Some(2), "{command}: {stderr}");
        assert!(stderr.contains("exercise 0.1") && stderr.contains("1.5"), "{command}: {stderr}");
    }
}

#[test]
fn next_shows_the_task_or_that_there_is_nothing_left() {
    let (code, stdout, stderr) = homework("next");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("Exercise ") && stdout.contains("--test homework -- ") || stdout.contains("all exercises pass")
    );
}
