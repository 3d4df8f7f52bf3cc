//! Schedules that must be refused, and why.

use ch4_pipeline_parallel::schedule::{Action, Kind, Layout, Schedule, Work};
use decoder::random::Rng;

fn refused(schedule: &Schedule) -> String {
    schedule.check().expect_err("must be refused").to_string()
}

#[test]
fn a_schedule_that_lost_or_doubled_an_action_is_refused_whichever_it_is() {
    let seed = 20261130;
    let mut rng = Rng::new(seed);
    for kind in Kind::ALL {
        for _ in 0..40 {
            let (p, m) = (2 + 2 * (rng.bits() as usize % 3), 16);
            let Ok(valid) = kind.schedule(p, m, 2) else { continue };
            let stage = rng.bits() as usize % p;
            let index = rng.bits() as usize % valid.stages[stage].len();
            let mut lost = valid.clone();
            let action = lost.stages[stage].remove(index);
            let message = refused(&lost);
            assert!(message.contains(&format!("stage {stage}")), "seed {seed}: {message}");
            let mut doubled = valid.clone();
            doubled.stages[stage].insert(index, Action { with_next: false, ..action });
            refused(&doubled);
        }
    }
}

#[test]
fn stages_that_wait_for_each_other_are_named_with_what_they_wait_for() {
    let mut schedule = Kind::OneForwardOneBackward.schedule(2, 2, 1).unwrap();
    // Stage 0 wants its first gradient before it has sent the micro-batch that stage 1 takes first.
    schedule.stages[0] = ["F0", "B0", "F1", "B1"].map(|text| text.parse().unwrap()).to_vec();
    schedule.stages[1] = ["F0", "F1", "B0", "B1"].map(|text| text.parse().unwrap()).to_vec();
    let message = refused(&schedule);
    for part in [
        "deadlock",
        "stage 0 waits in B0",
        "gradient of micro-batch 0",
        "stage 1 waits in F1",
        "forward of micro-batch 1",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_backward_before_its_own_forward_is_a_deadlock_of_one_stage() {
    let stages = vec![vec![Action::backward(0, 0), Action::forward(0, 0)]];
    let message = refused(&Schedule { layout: Layout::Straight, micro_batches: 1, stages });
    assert!(message.contains("stage 0 waits in B0") && message.contains("comes later"), "{message}");
}

#[test]
fn random_orders_are_either_valid_or_explained_and_never_panic() {
    let seed = 77;
    let mut rng = Rng::new(seed);
    let (mut valid, mut deadlocks) = (0, 0);
    for _ in 0..2000 {
        let mut schedule = Kind::Gpipe.schedule(3, 3, 1).unwrap();
        for list in &mut schedule.stages {
            for _ in 0..3 {
                let (a, b) = (rng.bits() as usize % list.len(), rng.bits() as usize % list.len());
                list.swap(a, b);
            }
        }
        match schedule.check() {
            Ok(_) => valid += 1,
            Err(error) => {
                assert!(error.to_string().contains("deadlock"), "seed {seed}: {error}");
                deadlocks += 1;
            }
        }
    }
    assert!(valid > 10 && deadlocks > 10, "{valid} valid, {deadlocks} deadlocks");
}

#[test]
fn numbers_that_a_schedule_cannot_be_made_for_are_refused_with_legal_ones() {
    let message = |kind: Kind, p, m| kind.schedule(p, m, 2).unwrap_err().to_string();
    assert!(message(Kind::Gpipe, 4, 0).contains("at least 1 micro-batch"));
    assert!(message(Kind::ZbH1, 0, 4).contains("at least 1 stage"));
    let interleaved = message(Kind::Interleaved, 4, 6);
    assert!(interleaved.contains("4 or 8"), "{interleaved}");
    assert!(message(Kind::Interleaved, 4, 2).contains(" 4 are a multiple"), "{}", message(Kind::Interleaved, 4, 2));
    assert!(message(Kind::Dualpipe, 3, 16).contains("2 or 4 stages"));
    assert!(message(Kind::Dualpipe, 4, 6).contains("from 8 up"));
    assert!(Kind::Gpipe.chunks(Some(2)).is_err() && Kind::ZbV.chunks(Some(3)).is_err());
    assert_eq!(Kind::Interleaved.chunks(Some(3)).unwrap(), 3);
}

#[test]
fn a_half_of_a_backward_is_not_enough() {
    let mut schedule = Kind::ZbH1.schedule(2, 2, 1).unwrap();
    schedule.stages[1].retain(|action| (action.work, action.micro_batch) != (Work::WeightGradient, 1));
    let message = refused(&schedule);
    assert!(message.contains("never does W1, the other half"), "{message}");
}
