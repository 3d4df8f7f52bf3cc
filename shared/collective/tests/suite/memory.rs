//! Each rank pays for what it holds: buffers as communication, results as what the caller says.

use crate::inputs::watched;
use crate::values::options;
use candle_core::{DType, Device, Tensor};
use collective::{Algorithm, Error, Failure, Options, ReduceOp, launch};
use ledger::{Kind, Operation, Phase};

#[global_allocator]
static ALLOCATOR: ledger::CountingAllocator = ledger::CountingAllocator;

const BYTES: u64 = 1 << 20;

fn tensor() -> Result<Tensor, Error> {
    Ok(Tensor::zeros(BYTES as usize / 4, DType::F32, &Device::Cpu)?)
}

#[test]
fn a_result_is_charged_to_the_rank_and_kind_that_asked_for_it() {
    watched(60, || {
        for algorithm in Algorithm::ALL {
            launch(2, &options(algorithm), |rank| {
                let group = rank.communicator();
                let _activations = ledger::scope(Kind::Activations);
                let own = tensor()?;
                let held = |kind| rank.ledger().current(kind).unwrap();
                let before = held(Kind::Activations);
                let gained = |what: &str, from: u64, bytes: u64| {
                    // Beside its elements a tensor has a few hundred bytes of its own.
                    let gained = held(Kind::Activations) - from;
                    assert!(
                        (bytes..bytes + 2048).contains(&gained),
                        "{what}, {algorithm}: {gained} bytes, not {bytes}"
                    );
                    from + gained
                };
                let sum = group.all_reduce(&own, ReduceOp::Sum)?;
                let at = gained("all_reduce", before, BYTES);
                let copy = group.broadcast(&own, 1)?;
                let at = gained("broadcast", at, BYTES);
                let message = group.send_recv(&own, 1 - rank.rank(), 1 - rank.rank())?;
                let at = gained("send_recv", at, BYTES);
                let joined = group.all_gather(&own, 0)?;
                let at = gained("all_gather", at, 2 * BYTES);
                let started = group.start_all_reduce(&own, ReduceOp::Sum)?.wait()?;
                gained("start_all_reduce", at, BYTES);
                group.barrier()?;
                drop((sum, copy, message, joined, started));
                assert_eq!(held(Kind::Activations), before, "{algorithm}: all is given back");
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    });
}

#[test]
fn buffers_are_communication_and_a_ring_holds_chunks_of_them() {
    watched(60, || {
        launch(4, &options(Algorithm::Ring), |rank| {
            let own = tensor()?;
            rank.communicator().barrier()?;
            rank.ledger().reset_peaks();
            rank.communicator().all_reduce_in_place(&own, ReduceOp::Sum)?;
            let peak = rank.ledger().peak(Kind::Communication).unwrap();
            assert!((BYTES / 4..BYTES / 2).contains(&peak), "{peak} bytes for chunks of 256 KiB");
            rank.communicator().barrier()?;
            assert_eq!(rank.ledger().peak(Kind::Weights), Some(0));
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}

#[test]
fn a_rank_whose_device_is_too_small_is_named_with_its_figures() {
    watched(30, || {
        let options = Options { device_memory: Some(BYTES), ..Options::default() };
        let outcome = launch(2, &options, |rank| {
            let _activations = ledger::scope(Kind::Activations);
            let _held = if rank.rank() == 1 { Some((tensor()?, tensor()?)) } else { None };
            let shape = vec![1];
            let done =
                Operation { name: "linear", label: "w".into(), phase: Phase::Forward, shape, flops: 1, bytes: 1 };
            rank.observer().observe(&done)?;
            rank.communicator().barrier()
        });
        let Err(Error::Failed(failure)) = outcome else { panic!("2 MiB do not fit 1 MiB") };
        assert!(matches!(&*failure, Failure::Error { rank: 1, .. }), "{failure}");
        assert!(failure.to_string().contains("rank 1 is out of device memory"), "{failure}");
    });
}
