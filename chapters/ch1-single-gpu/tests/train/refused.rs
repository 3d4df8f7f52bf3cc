//! What makes no sense is refused at once, in terms of the flag, with exit code 2; what cannot be done, with 1.

use crate::program::{Workplace, stderr};
use std::fs;

#[test]
fn flags_without_meaning_are_bad_usage_and_say_what_would_be_legal() {
    let place = Workplace::new();
    for (flags, says) in [
        ("--steps 0", "--steps 0: at least 1"),
        ("--batch 0", "--batch 0: at least 1"),
        ("--seq 129", "--seq 129: at most the model's context, 128"),
        ("--lr 0", "--lr 0: a positive"),
        ("--lr -0.1", "--lr -0.1: a positive"),
        ("--clip 0", "--clip 0: a positive"),
        ("--accumulate 5", "1 to 4"),
        ("--warm-up 100", "--warm-up 100: fewer than the 100 steps"),
        ("--weight-decay -1", "--weight-decay -1: a finite number, 0 or more"),
        ("--dtype f16", "bf16"),
        ("--plot loss.pdf", ".svg or .png"),
        ("--resume --overwrite", "cannot be used with"),
    ] {
        let output = place.train("run", flags).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(says), "{flags}: {:?} {said}", output.status);
        assert!(output.stdout.is_empty() && !place.path("run").exists(), "{flags}: nothing was begun");
    }
}

#[test]
fn a_corpus_or_folder_that_cannot_be_used_is_named() {
    let place = Workplace::new();
    let refuse = |flags: &str, says: &[&str]| {
        let output = place.train("run", flags).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{flags}: {said}");
        assert!(says.iter().all(|part| said.contains(part)), "{flags}: {said}");
    };
    let corpus = place.path("corpus.txt");
    let flag = format!("--corpus {}", corpus.display());
    refuse(&flag, &["corpus.txt", "cannot read"]);
    fs::write(&corpus, "the dog sat").unwrap();
    refuse(&flag, &["3 tokens are shorter than one sequence", "16 + 1"]);
    fs::write(&corpus, [0xff, 0xfe, 0x00]).unwrap();
    refuse(&flag, &["corpus.txt", "UTF-8"]);

    fs::write(&corpus, "the dog sat on the mat. ".repeat(20)).unwrap();
    let made = place.finish("run", &format!("{flag} --steps 2"));
    assert!(made["held_out_loss"].is_null(), "nothing is held out of a user's corpus");
    refuse(&format!("{flag} --steps 2"), &["there is a run already", "--resume", "--overwrite", "--out"]);
    refuse("--steps 2 --resume", &["is of another run", "corpus.sha256"]);
    refuse(&format!("{flag} --steps 2 --batch 2 --resume"), &["plan.batch: checkpoint 4, this run 2"]);
    place.finish("run", &format!("{flag} --steps 3 --batch 2 --overwrite"));
}
