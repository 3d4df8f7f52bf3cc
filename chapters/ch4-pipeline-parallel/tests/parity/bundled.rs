//! The bundled model: the same text, and the same steps.

use candle_core::{DType, Device};
use ch4_pipeline_parallel::engine::Pipeline;
use ch4_pipeline_parallel::inference::{Server, generate, score};
use ch4_pipeline_parallel::schedule::{Kind, Layout};
use ch4_pipeline_parallel::stages::{LayerCosts, Stages};
use ch4_pipeline_parallel::train::Trainer;
use collective::{Options, launch};
use decoder::generation::{Options as Generation, Sampling, generate as on_one_device};
use decoder::random::Rng;
use decoder::source::Source;
use decoder::split::Split;
use decoder::{Config, Context, Decoder};
use lab::batch::Batch;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use training::Named;
use training::data::TokenData;
use training::interrupt::Interrupt;
use training::journal::{End, Journal};
use training::optimiser::{AdamW, Rule};
use training::plan::Plan;
use training::run::Run;
use training::schedule::Schedule;

fn source() -> Source {
    let assets = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets"));
    Source::resolve(assets.join("stories-1.9m").to_str().unwrap(), None, assets).unwrap()
}

fn load(dtype: DType, split: &Split) -> Decoder {
    load_as(&source().config().unwrap(), dtype, split)
}

fn load_as(config: &Config, dtype: DType, split: &Split) -> Decoder {
    Decoder::load(config, &*source().weights().unwrap(), dtype, &Device::Cpu, split).unwrap()
}

fn straight(config: &Config, p: usize) -> Stages {
    Stages::balanced(Layout::Straight, p, &LayerCosts::flops(config, 64).unwrap()).unwrap()
}

fn prompts(texts: &[&str]) -> Vec<Vec<u32>> {
    let tokenizer = source().tokenizer().unwrap();
    texts.iter().map(|text| tokenizer.encode(text, true).unwrap()).collect()
}

#[test]
fn every_number_of_stages_and_of_groups_in_flight_writes_the_same_text() {
    let mut config = source().config().unwrap();
    let texts = ["the dog", "once upon a time there was", "a", "the girl went to the park and", "the cat sat"];
    let prompts = prompts(&texts);
    let sampled = Sampling { temperature: 0.8, repeat_penalty: 1.1, seed: 11, ..Sampling::default() };
    for sampling in [Sampling::default(), sampled] {
        let options = Generation { sampling, max_tokens: 40, ..Generation::default() };
        let one_device = |config: &Config| {
            let whole = load_as(config, DType::F32, &Split::whole());
            let on_token = |_, _| Ok(ControlFlow::Continue(()));
            on_one_device(&whole, &Context::inference(), &prompts, &options, on_token).unwrap()
        };
        // A token that ends some texts early, and not others.
        config.eos = vec![one_device(&config).ids[1][9]];
        let expected = one_device(&config);
        let lengths: std::collections::BTreeSet<_> = expected.ids.iter().map(Vec::len).collect();
        assert!(lengths.len() > 1, "{lengths:?}");
        for p in [1, 2, 3, 4, 8] {
            let stages = straight(&config, p);
            for in_flight in [1, 2, 5] {
                let served = launch(p, &Options::default(), |rank| {
                    let split = stages.split(rank.rank());
                    let model = load_as(&config, DType::F32, &split);
                    let context = Context::inference().with_split(split);
                    let communicator = &**rank.communicator();
                    let server = Server { stages: &stages, communicator, model: &model, context: &context };
                    generate(&server, &prompts, &options, in_flight, |_, _| Ok(()))
                })
                .unwrap();
                let what = format!("pp {p}, {in_flight} in flight");
                let generated = served[0].generated.as_ref().unwrap();
                assert_eq!(generated.ids, expected.ids, "{what}");
                assert_eq!(generated.steps, expected.steps, "{what}");
                assert!(served[1..].iter().all(|stage| stage.generated.is_none()), "{what}");
                // Several in flight is what keeps the stages busy.
                let share = served[0].busy as f64 / served[0].ticks as f64;
                let most = in_flight.min(p) as f64 / p as f64;
                assert!(share <= most + 1e-9 && share > 0.4 * most, "{what}: busy {share} of {most}");
            }
        }
    }
}

#[test]
fn scores_are_those_of_one_device() {
    let config = source().config().unwrap();
    let batch = Batch::new("a test", prompts(&["the dog ran home", "the cat", "she was happy and"]), &config).unwrap();
    let whole = load(DType::F64, &Split::whole());
    let expected = lab::score::score(&whole, &Context::inference(), &batch).unwrap();
    for p in [2, 4, 8] {
        let stages = straight(&config, p);
        let scores = launch(p, &Options::default(), |rank| {
            let split = stages.split(rank.rank());
            let model = load(DType::F64, &split);
            let context = Context::inference().with_split(split);
            let server =
                Server { stages: &stages, communicator: &**rank.communicator(), model: &model, context: &context };
            score(&server, &batch)
        })
        .unwrap();
        let found = scores.into_iter().flatten().next().unwrap();
        assert!((found.loss - expected.loss).abs() < 1e-12, "pp {p}: {} {}", found.loss, expected.loss);
        for (found, expected) in found.sequences.iter().zip(&expected.sequences) {
            assert_eq!((&found.ids, &found.argmax), (&expected.ids, &expected.argmax));
        }
    }
}

fn plan(steps: u64, rule: Rule) -> Plan {
    let schedule = Schedule::cosine(if rule == Rule::Sgd { 0.1 } else { 1e-3 }, 1e-4, 1, 10).unwrap();
    Plan { batch: 8, seq: 16, micro_batches: 8, steps, rule, schedule, clip: Some(0.05), seed: 3 }
}

fn data(config: &Config, seed: u64) -> Arc<TokenData> {
    let mut rng = Rng::new(seed);
    let ids = (0..2000).map(|_| (rng.bits() % 200) as u32).collect();
    Arc::new(TokenData::new(ids, config.vocab).unwrap())
}

/// Whole weights after training on `p` stages; with a folder, a journal is kept there, or gone on with.
fn train(kind: Kind, p: usize, plan: &Plan, data: &Arc<TokenData>, folder: Option<(&Path, bool)>) -> (Vec<f64>, Named) {
    let config = source().config().unwrap();
    let schedule = kind.schedule(p, plan.micro_batches, 2).unwrap();
    let stages = Stages::balanced(schedule.layout, p, &LayerCosts::flops(&config, 16).unwrap()).unwrap();
    let pipeline = Pipeline::new(schedule, stages).unwrap();
    let mut ranks = launch(p, &Options::default(), |rank| {
        let split = pipeline.stages().split(rank.rank());
        let context = Context::inference().with_split(split.clone()).with_observer(rank.observer());
        let mut run = Run::new(plan.clone(), load(DType::F64, &split), data.clone(), context)?;
        let communicator = &**rank.communicator();
        let trainer = Trainer { pipeline: &pipeline, communicator, clock: rank.clock(), failure: None };
        let mut journal = None;
        if let Some((folder, resume)) = folder {
            if resume {
                let resumed = Trainer::restore(folder, &mut run)?;
                assert!(resumed.step > 0);
                if rank.rank() == 0 {
                    journal = Some(Journal::resume_after(folder, &resumed, None)?);
                }
            } else if rank.rank() == 0 {
                journal = Some(Journal::begin(folder, None)?);
            }
        }
        let mut losses = Vec::new();
        let end =
            trainer.train(&mut run, &Interrupt::default(), journal.as_mut(), |record, _| losses.push(record.loss))?;
        assert_eq!(end, End::Done);
        Ok::<_, ch4_pipeline_parallel::Error>((losses, trainer.gather(&run)?))
    })
    .unwrap();
    let (losses, snapshot) = ranks.swap_remove(0);
    (losses, snapshot.unwrap().weights)
}

#[test]
fn five_steps_leave_the_weights_of_one_device() {
    let config = source().config().unwrap();
    let data = data(&config, 5);
    let mut worst = 0.0f64;
    for rule in [Rule::Sgd, Rule::AdamW(AdamW::default())] {
        let plan = plan(5, rule);
        let mut run =
            Run::new(plan.clone(), load(DType::F64, &Split::whole()), data.clone(), Context::inference()).unwrap();
        let losses: Vec<f64> = (0..5).map(|_| run.step().unwrap().loss).collect();
        for (kind, p) in [
            (Kind::OneForwardOneBackward, 4),
            (Kind::Gpipe, 2),
            (Kind::ZbH2, 3),
            (Kind::ZbV, 4),
            (Kind::Interleaved, 4),
        ] {
            let (found, weights) = train(kind, p, &plan, &data, None);
            let difference = super::support::difference(&weights, run.parameters());
            worst = worst.max(difference);
            assert!(difference <= 1e-10, "{} pp {p}: {difference}", kind.name());
            for (found, expected) in found.iter().zip(&losses) {
                assert!((found - expected).abs() <= 1e-10, "{} pp {p}: losses {found} {expected}", kind.name());
            }
        }
    }
    println!("largest difference of a weight after 5 steps: {worst:.1e}");
}

#[test]
fn a_run_goes_on_with_another_number_of_stages_and_on_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let config = source().config().unwrap();
    let data = data(&config, 6);
    let whole = |steps| {
        Run::new(
            plan(steps, Rule::AdamW(AdamW::default())),
            load(DType::F64, &Split::whole()),
            data.clone(),
            Context::inference(),
        )
        .unwrap()
    };
    let mut uninterrupted = whole(6);
    for _ in 0..6 {
        uninterrupted.step().unwrap();
    }

    train(Kind::ZbH1, 4, &plan(2, Rule::AdamW(AdamW::default())), &data, Some((folder.path(), false)));
    let (losses, _) =
        train(Kind::Gpipe, 2, &plan(4, Rule::AdamW(AdamW::default())), &data, Some((folder.path(), true)));
    assert_eq!(losses.len(), 2);
    let mut run = whole(6);
    let (mut journal, resumed) = Journal::resume(folder.path(), &mut run, None).unwrap();
    assert_eq!(resumed.step, 4);
    journal.train(&mut run, &Interrupt::default(), |run| run.step()).unwrap();
    let difference = super::support::difference(run.parameters(), uninterrupted.parameters());
    assert!(difference <= 1e-10, "{difference}");
    let steps: Vec<u64> = Journal::records(folder.path()).unwrap().iter().map(|record| record.step).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5]);
}
