//! Every layout of every chapter is the single device: what `cargo compare` shows, as a test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use candle_core::{DType, Device};
use ch6_communication_memory::compare::variants;
use collective::{ClockKind, Options};
use decoder::generation::Options as Generation;
use decoder::random::Rng;
use decoder::source::Source;
use lab::flags::{BUNDLED, assets};
use lab::loaded::Described;
use lab::variant::{Work, compare};
use training::data::Batch;

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

/// Relative difference of a gradient that another order of additions explains, in f64.
const TOLERANCE: f64 = 1e-9;
/// Share by which measured memory may differ from the formula: descriptors of tensors, which no formula names.
const MEMORY: f64 = 0.05;

/// Prompts of unequal lengths, and a batch in which some targets do not count.
fn work(seed: u64) -> Work {
    let source = Source::resolve(BUNDLED, None, &assets()).unwrap();
    let config = source.config().unwrap();
    let mut rng = Rng::new(seed);
    let mut ids = |count: usize| (0..count).map(|_| rng.below(config.vocab) as u32).collect::<Vec<_>>();
    let (rows, seq) = (9, 40);
    let prompts = [5, 1, 12, 7].map(&mut ids).into();
    let (inputs, mut targets) = (ids(rows * seq), ids(rows * seq));
    // A whole row and the end of another: the mean over the batch is no mean of the rows' means.
    targets[2 * seq..3 * seq].fill(training::data::IGNORED);
    targets[4 * seq + 11..5 * seq].fill(training::data::IGNORED);
    let generation = Generation { max_tokens: 12, ..Generation::default() };
    let options = Options { clock: ClockKind::Wall, ..Options::default() };
    let described = Described { source, config, device: Device::Cpu, dtype: DType::F64 };
    Work { described, prompts, generation, batch: Batch { inputs, targets, rows, seq }, micro_batches: 4, options }
}

#[test]
fn every_variant_gives_the_text_and_the_gradients_of_one_device_and_sends_what_is_predicted() {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = time.as_nanos() as u64;
    println!("seed {seed}");
    let report = compare(&variants(), &work(seed), |_| ()).unwrap();
    println!("{}", report.table());
    for row in &report.variants {
        assert!(row.text.is_right(), "{}: {}", row.variant, row.text);
        assert!(row.gradient_difference <= TOLERANCE, "{}: {:e}", row.variant, row.gradient_difference);
        assert!(row.traffic_as_predicted, "{}: {} and {} bytes", row.variant, row.sent_predicted, row.sent_counted);
        let (predicted, measured) = (row.memory_predicted as f64, row.memory_measured.unwrap() as f64);
        assert!((measured / predicted - 1.0).abs() <= MEMORY, "{}: {predicted} predicted, {measured}", row.variant);
        assert_eq!(row.sent_counted == 0, row.ranks == 1, "{}: several ranks communicate", row.variant);
    }
    assert!(report.all_equal(TOLERANCE) && report.variants.len() > 1);
}

#[test]
fn work_that_is_too_little_for_a_variant_is_refused_before_any_runs_in_terms_of_flags() {
    let refused = |change: fn(&mut Work)| {
        let mut work = work(1);
        change(&mut work);
        compare(&variants(), &work, |name| panic!("{name} runs")).unwrap_err().to_string()
    };
    let message = refused(|work| work.prompts.truncate(1));
    assert!(message.contains("--prompt (1 in all)") && message.contains("at least 2"), "{message}");
    let message = refused(|work| work.batch = work.batch.rows(0..3).unwrap());
    assert!(message.contains("--batch 3") && message.contains("at least 4"), "{message}");
    let message = refused(|work| {
        let Batch { inputs, targets, .. } = &work.batch;
        work.batch = Batch { inputs: inputs[..9].to_vec(), targets: targets[..9].to_vec(), rows: 9, seq: 1 };
    });
    assert!(message.contains("--seq 1") && message.contains("at least 4"), "{message}");
}
