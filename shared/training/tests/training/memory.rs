//! A step gives back everything it takes.

use crate::support::{Generator, adamw, config, model, plan, run};
use candle_core::DType;
use ledger::{Kind, Ledger};

/// A block of the thread pool's queue. The smallest tensor, lost once in each of 190 steps, would be 24 KiB.
const SLACK: u64 = 4096;

#[test]
fn memory_is_flat_over_200_steps() {
    let ledger = Ledger::claim("run").unwrap();
    let _entered = ledger.enter();
    let name = "llama-gqa";
    let data = Generator::fresh().corpus(config(name).vocab, 1000);
    let mut plan = plan(adamw(), 200);
    plan.micro_batches = 3;
    let mut run = run(plan, model(name, DType::F32), &data);
    let figures = || Kind::ALL.map(|kind| (kind, ledger.current(kind).unwrap(), ledger.peak(kind).unwrap()));
    for _ in 0..10 {
        run.step().unwrap();
    }
    let early = figures();
    for _ in 10..200 {
        run.step().unwrap();
    }
    for ((kind, now, peak), (_, early_now, early_peak)) in figures().into_iter().zip(early) {
        let (now, peak) = (now.abs_diff(early_now), peak.abs_diff(early_peak));
        assert!(now <= SLACK && peak <= SLACK, "{kind}: {now} bytes held, {peak} at the peak more than after 10 steps");
    }
    for kind in [Kind::Gradients, Kind::Activations] {
        let left = ledger.current(kind).unwrap();
        assert!(left <= SLACK, "{kind}: {left} bytes are left after a step");
    }
    let weights: usize = run.parameters().values().map(|value| value.elem_count() * 4).sum();
    assert_eq!(run.optimiser().state_bytes(), 2 * weights as u64, "two moments per weight");
}
