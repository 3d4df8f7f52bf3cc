//! A reader that goes away is no error: `cargo ch1 … | head -c 1`.

use crate::models::{fixture, with_text};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

fn first_byte(subcommand: &str, model: &Path, arguments: &[&str]) {
    let mut command = crate::program();
    command.arg(subcommand).arg("--model").arg(model).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    // The reader is dropped here.
    let run = crate::Run::of(format!("{subcommand} {arguments:?} | head -c 1"), &child.wait_with_output().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    assert!(!run.stderr.contains("error"), "{run}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = with_text();
    first_byte("generate", folder.path(), &["--prompt", "the dog", "-n", "400"]);
    first_byte("generate", folder.path(), &["--prompt", "the dog", "-n", "4", "--json"]);
    let ids = format!("[[{}1]]", "1,".repeat(120));
    first_byte("score", &fixture("llama-gqa"), &["--ids", &ids]);
    first_byte("score", &fixture("llama-gqa"), &["--ids", &ids, "--json"]);
    first_byte("layer", &fixture("llama-gqa"), &[]);
}
