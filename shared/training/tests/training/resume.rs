//! A run that ended anywhere goes on to the last bit as if it had not.

use crate::support::{Generator, adamw, bits, config, model, plan, run};
use candle_core::DType;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use training::Error;
use training::data::TokenData;
use training::interrupt::Interrupt;
use training::journal::{End, Journal, Resumed};
use training::metrics::Record;
use training::optimiser::Rule;
use training::run::Run;
use training::schedule::Schedule;

const NAME: &str = "llama-gqa";
const STEPS: u64 = 12;

fn every(steps: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(steps)
}

fn new_run(rule: Rule, dtype: DType, data: &Arc<TokenData>) -> Run {
    let mut plan = plan(rule, STEPS);
    plan.micro_batches = 2;
    run(plan, model(NAME, dtype), data)
}

/// Takes steps until `until` are done, then asks for the end.
fn train(journal: &mut Journal, run: &mut Run, until: u64) -> End {
    let interrupt = Interrupt::default();
    let step = |run: &mut Run| {
        let record = run.step()?;
        if run.steps_done() == until {
            interrupt.request();
        }
        Ok::<_, Error>(record)
    };
    journal.train(run, &interrupt, step).unwrap()
}

/// Goes on in `folder` to the end, in a new process as it were: with fresh weights.
fn finish(folder: &Path, rule: Rule, dtype: DType, data: &Arc<TokenData>) -> (Run, Resumed) {
    let mut run = new_run(rule, dtype, data);
    let (mut journal, resumed) = Journal::resume(folder, &mut run, every(3)).unwrap();
    assert_eq!(train(&mut journal, &mut run, STEPS), End::Done);
    (run, resumed)
}

/// Every step's numbers, without its speed.
fn trajectory(folder: &Path) -> Vec<(u64, u64, u64, u64, u64)> {
    let bits =
        |one: Record| (one.step, one.loss.to_bits(), one.norm.to_bits(), one.learning_rate.to_bits(), one.tokens);
    Journal::records(folder).unwrap().into_iter().map(bits).collect()
}

#[track_caller]
fn assert_same(found: &Run, expected: &Run) {
    assert_eq!(bits(found.parameters()), bits(expected.parameters()), "weights");
    let (found, expected) = (found.optimiser().state(), expected.optimiser().state());
    assert_eq!(found.steps, expected.steps);
    assert_eq!(bits(&found.tensors), bits(&expected.tensors), "moments and master weights");
}

#[test]
fn a_run_that_was_interrupted_ends_bit_for_bit_as_one_that_was_not() {
    let mut generator = Generator::fresh();
    let data = generator.corpus(config(NAME).vocab, 400);
    for (rule, dtype) in [(adamw(), DType::F32), (adamw(), DType::BF16), (adamw(), DType::F64), (Rule::Sgd, DType::F32)]
    {
        let folders = tempfile::tempdir().unwrap();
        let [whole, parts] = ["whole", "parts"].map(|name| folders.path().join(name));
        let mut expected = new_run(rule.clone(), dtype, &data);
        let end = train(&mut Journal::begin(&whole, every(3)).unwrap(), &mut expected, STEPS);
        assert_eq!(end, End::Done);

        let mut first = new_run(rule.clone(), dtype, &data);
        let until = 1 + generator.below(STEPS as usize - 1) as u64;
        let end = train(&mut Journal::begin(&parts, None).unwrap(), &mut first, until);
        assert_eq!(end, End::Interrupted, "after {until} steps");
        let (found, resumed) = finish(&parts, rule.clone(), dtype, &data);
        assert_eq!((resumed.step, resumed.skipped.len()), (until, 0));
        assert_same(&found, &expected);
        assert_eq!(trajectory(&parts), trajectory(&whole), "{rule:?} {dtype:?}, interrupted after {until} steps");
    }
}

/// Checkpoints at 3 and 6, metrics up to step 7, and half of the next checkpoint.
fn killed(folder: &Path, data: &Arc<TokenData>) {
    let mut run = new_run(adamw(), DType::F32, data);
    let mut journal = Journal::begin(folder, every(3)).unwrap();
    let killed = journal.train(&mut run, &Interrupt::default(), |run| {
        if run.steps_done() == 8 {
            return Err(Error::Corpus { problem: "killed".into() });
        }
        run.step()
    });
    assert!(killed.is_err());
    let checkpoints = folder.join("checkpoints");
    let partial = checkpoints.join(".partial-step-00000009");
    fs::create_dir(&partial).unwrap();
    let model = fs::read(checkpoints.join("step-00000006/model.safetensors")).unwrap();
    fs::write(partial.join("model.safetensors"), &model[..model.len() / 2]).unwrap();
    let metrics = folder.join("metrics.jsonl");
    let text = fs::read_to_string(&metrics).unwrap();
    fs::write(&metrics, text + "{\"step\":8,\"lo").unwrap();
}

#[test]
fn a_run_killed_while_saving_goes_on_from_the_newest_whole_checkpoint_and_a_damaged_one_is_passed_over() {
    let mut generator = Generator::fresh();
    let data = generator.corpus(config(NAME).vocab, 400);
    let folders = tempfile::tempdir().unwrap();
    let whole = folders.path().join("whole");
    let mut expected = new_run(adamw(), DType::F32, &data);
    train(&mut Journal::begin(&whole, None).unwrap(), &mut expected, STEPS);

    // What is done to the newest checkpoint, and the step that is gone on from.
    let mut flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let at = generator.below(bytes.len());
        bytes[at] ^= 1 << generator.below(8);
        fs::write(path, bytes).unwrap();
    };
    for (damage, from) in [(None, 6), (Some("optimiser.safetensors"), 3), (Some("manifest.json"), 3)] {
        let folder = folders.path().join(damage.unwrap_or("none"));
        killed(&folder, &data);
        if let Some(file) = damage {
            flip(&folder.join("checkpoints/step-00000006").join(file));
        }
        let (found, resumed) = finish(&folder, adamw(), DType::F32, &data);
        assert_eq!(resumed.step, from, "{damage:?}: {resumed:?}");
        let reasons: Vec<_> = resumed.skipped.iter().map(|one| one.reason.as_str()).collect();
        assert!(reasons.iter().any(|reason| reason.contains("half-written")), "{reasons:?}");
        assert_eq!(reasons.len(), 1 + usize::from(damage.is_some()), "{reasons:?}");
        assert_same(&found, &expected);
        assert_eq!(trajectory(&folder), trajectory(&whole), "every step stands in the metrics once");
    }
}

#[test]
fn a_run_that_never_came_to_a_checkpoint_begins_again_and_one_that_is_done_stays_done() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 400);
    let folders = tempfile::tempdir().unwrap();
    let folder = folders.path().join("new");
    let (expected, resumed) = finish(&folder, adamw(), DType::F32, &data);
    assert_eq!(resumed, Resumed { from: None, step: 0, skipped: Vec::new() });
    let before = trajectory(&folder);
    let (found, resumed) = finish(&folder, adamw(), DType::F32, &data);
    assert_eq!(resumed.step, STEPS);
    assert_same(&found, &expected);
    assert_eq!(trajectory(&folder), before);
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_what_differs() {
    let mut generator = Generator::fresh();
    let data = generator.corpus(config(NAME).vocab, 400);
    let folder = tempfile::tempdir().unwrap();
    let mut run_there = new_run(adamw(), DType::F32, &data);
    train(&mut Journal::begin(folder.path(), None).unwrap(), &mut run_there, 2);

    let plan = |change: fn(&mut training::plan::Plan)| {
        let mut plan = run_there.plan().clone();
        change(&mut plan);
        plan
    };
    let same = |_: &mut training::plan::Plan| ();
    let other_data = generator.corpus(config(NAME).vocab, 400);
    for (mut other, named) in [
        (run(plan(|plan| plan.batch = 4), model(NAME, DType::F32), &data), "plan.batch: checkpoint 8, this run 4"),
        (run(plan(|plan| plan.seed = 6), model(NAME, DType::F32), &data), "plan.seed"),
        (
            run(plan(|plan| plan.schedule = Schedule::constant(1e-3).unwrap()), model(NAME, DType::F32), &data),
            "plan.schedule",
        ),
        (run(plan(|plan| plan.rule = Rule::Sgd), model(NAME, DType::F32), &data), "plan.rule"),
        (run(plan(same), model(NAME, DType::BF16), &data), "dtype"),
        (run(plan(same), model("llama-headdim", DType::F32), &data), "model.head_dim"),
        (run(plan(same), model(NAME, DType::F32), &other_data), "corpus.sha256"),
    ] {
        let before = bits(other.parameters());
        let message = Journal::resume(folder.path(), &mut other, None).unwrap_err().to_string();
        assert!(message.contains(named), "{named}: {message}");
        assert_eq!(bits(other.parameters()), before, "{named}: nothing has changed");
    }
    // A longer run is the same run.
    let mut longer = run(plan(|plan| plan.steps = 100), model(NAME, DType::F32), &data);
    assert_eq!(Journal::resume(folder.path(), &mut longer, None).unwrap().1.step, 2);
}

#[test]
fn a_folder_belongs_to_one_run_at_a_time() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 400);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let first = Journal::begin(path, None).unwrap();
    let mut second = new_run(adamw(), DType::F32, &data);
    let refusals = [
        Journal::begin(path, None).map(drop),
        Journal::resume(path, &mut second, None).map(drop),
        Journal::remove(path),
    ];
    for refused in refusals {
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("another run is writing") && message.contains("metrics.jsonl"), "{message}");
    }
    drop(first);
    train(&mut Journal::begin(path, None).unwrap(), &mut second, 2);
    assert_eq!(Journal::records(path).unwrap().len(), 2);
}

#[test]
fn a_new_run_does_not_take_the_place_of_one_that_is_there_and_removing_deletes_nothing_else() {
    let data = Generator::fresh().corpus(config(NAME).vocab, 400);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    train(&mut Journal::begin(path, None).unwrap(), &mut new_run(adamw(), DType::F32, &data), 2);
    fs::write(path.join("notes.txt"), "mine").unwrap();
    fs::create_dir(path.join("checkpoints/.partial-step-00000003")).unwrap();
    fs::write(path.join("checkpoints/mine.txt"), "mine").unwrap();
    let message = Journal::begin(path, None).unwrap_err().to_string();
    assert!(message.contains("there is a run already"), "{message}");
    assert_eq!(Journal::records(path).unwrap().len(), 2, "and its metrics are as they were");
    Journal::remove(path).unwrap();
    let left: Vec<_> =
        fs::read_dir(path.join("checkpoints")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.txt"]);
    assert!(path.join("notes.txt").exists() && !path.join("metrics.jsonl").exists());
    Journal::begin(path, None).unwrap();
    Journal::remove(path).unwrap();
    Journal::remove(path).unwrap();
}
