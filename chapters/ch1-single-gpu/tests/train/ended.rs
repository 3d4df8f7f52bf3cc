//! However a run ended, the same command with `--resume` goes on; and what it made is a model.

use crate::program::{Generator, Workplace, assert_same, program, stderr};
use std::fs;
use std::process::Command;

#[test]
fn ctrl_c_ends_a_run_with_a_state_that_resumes_to_the_same_losses() {
    let place = Workplace::new();
    let expected = place.finish("whole", "--steps 60");
    let mut child = place.train("parts", "--steps 60").spawn().unwrap();
    while place.steps("parts") < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted after step") && said.contains("--resume"), "{said}");
    let resumed = place.finish("parts", "--steps 60 --resume");
    assert!(resumed["resumed_at"].as_u64().unwrap() >= 5, "{}", resumed["resumed_at"]);
    assert_same(&resumed, &expected);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_it_resumes() {
    let mut random = Generator::fresh();
    let place = Workplace::new();
    let expected = place.finish("run", "--steps 8 --checkpoint-every 2");
    let newest = place.path("run/checkpoints/step-00000008");
    let file = newest.join(["model.safetensors", "optimiser.safetensors"][random.next() as usize % 2]);
    let mut bytes = fs::read(&file).unwrap();
    let at = random.next() as usize % bytes.len();
    bytes[at] ^= 1 << (random.next() % 8);
    fs::write(&file, bytes).unwrap();

    let output = place.train("run", "--steps 8 --resume --checkpoint-every 2").output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success() && said.contains("not used") && said.contains("step-00000008"), "{said}");
    assert!(said.contains("resuming after 6 steps"), "{said}");
    assert_same(&serde_json::from_slice(&output.stdout).unwrap(), &expected);
}

#[test]
fn a_trained_model_is_a_folder_that_is_read_back_and_trained_further() {
    let place = Workplace::new();
    let saved = place.path("saved");
    let made = place.finish("run", &format!("--steps 12 --save {}", saved.display()));
    assert!(place.path("run/loss.svg").exists());

    // A model that is there is not replaced unasked.
    let mut again = program();
    again.args("train --steps 1 --batch 4 --seq 16 --out".split(' ')).arg(place.path("again"));
    let again = again.arg("--save").arg(&saved).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains("there is a model already"), "{}", stderr(&again));

    let text = program().args(["generate", "-n", "3", "--model"]).arg(&saved).output().unwrap();
    assert!(text.status.success() && text.stdout.starts_with(b"the dog"), "{}", stderr(&text));

    // Without --random it goes on from the weights of the model.
    let mut further = program();
    further.arg("train").arg("--model").arg(&saved).arg("--out").arg(place.path("further"));
    let further = further.args("--steps 1 --batch 4 --seq 16 --json".split(' ')).output().unwrap();
    assert!(further.status.success(), "{}", stderr(&further));
    let further: serde_json::Value = serde_json::from_slice(&further.stdout).unwrap();
    let (first, of_random) = (further["losses"][0].as_f64().unwrap(), made["losses"][0].as_f64().unwrap());
    assert!(first < of_random - 0.1, "loss {first}, that of random weights was {of_random}");
}
