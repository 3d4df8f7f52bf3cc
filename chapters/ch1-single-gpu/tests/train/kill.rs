//! `kill -9` at random moments: the run is always resumable, and ends with the losses of one that was left alone.

use crate::program::{Generator, Workplace, assert_same, stderr};
use std::time::Instant;

const KILLS: u32 = 20;
/// With a checkpoint after each second step much of the time is spent in saving.
const STEPS: &str = "--steps 100 --checkpoint-every 2";
const RESUME: &str = "--steps 100 --checkpoint-every 2 --resume";

#[test]
fn a_run_killed_20_times_ends_with_the_losses_of_one_left_alone() {
    let mut random = Generator::fresh();
    let place = Workplace::new();
    let start = Instant::now();
    let expected = place.finish("whole", STEPS);
    let duration = start.elapsed();

    let (mut progress, mut half_written) = (Vec::new(), 0);
    let mut out = "killed-0".to_owned();
    for kill in 0..KILLS {
        let mut child = place.train(&out, RESUME).spawn().unwrap();
        // Short of the whole run, so that it takes several lives.
        std::thread::sleep(duration.mul_f64(0.4 * random.unit()));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(!said.contains("error"), "kill {kill}: {said}");
        half_written += u32::from(said.contains("half-written"));
        progress.push(place.steps(&out));
        if output.status.success() {
            // Done before it could be killed: another run.
            assert_same(&place.finish(&out, RESUME), &expected);
            out = format!("killed-{}", kill + 1);
        }
    }
    println!("steps in the metrics after each kill: {progress:?}; half-written checkpoints found: {half_written}");
    assert_same(&place.finish(&out, RESUME), &expected);
}
