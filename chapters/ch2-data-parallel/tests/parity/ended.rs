//! Runs that do not come to their end: replicas that differ, ranks that fail, an interrupt that not all ranks see at once.

use crate::support::{adamw, config, corpus, fresh_seed, model, plan, run};
use candle_core::DType;
use ch2_data_parallel::core::Core;
use ch2_data_parallel::exercises::SYNCHRONISE;
use ch2_data_parallel::train::{Replica, Settings};
use ch2_data_parallel::{Error, replica};
use collective::{Failure, Options, launch};
use lab::flags::InjectedFailure;
use training::interrupt::Interrupt;
use training::journal::End;

#[test]
fn replicas_that_start_from_different_weights_are_refused_by_rank_and_name() {
    let (seed, config) = (fresh_seed(), config(false));
    for odd in 1..4 {
        let outcome = launch(4, &Options::default(), |rank| {
            let mine = model(&config, DType::F32, seed);
            let mut parameters = parameters_of(&mine);
            if rank.rank() == odd {
                // One element of one parameter, by the least that f32 can tell apart.
                let name = "model.layers.1.mlp.up_proj.weight";
                let tensor = parameters[name].copy().unwrap();
                let mut values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                values[17] = f32::from_bits(values[17].to_bits() ^ 1);
                let changed = candle_core::Tensor::from_vec(values, tensor.dims(), tensor.device()).unwrap();
                parameters.insert(name.into(), changed);
            }
            replica::check_equal(rank.communicator().as_ref(), &parameters, "at the start")
        });
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains(&format!("rank {odd}'s model.layers.1.mlp.up_proj.weight")), "{message}");
        assert!(message.contains("at the start"), "{message}");
    }
}

fn parameters_of(model: &decoder::Decoder) -> training::Named {
    model.parameters().into_iter().map(|(one, _)| (one.name().clone(), one.value().clone())).collect()
}

#[test]
fn a_run_that_does_not_synchronise_is_found_out_at_the_next_comparison() {
    let (seed, config) = (fresh_seed(), config(false));
    let data = corpus(config.vocab, 4000, seed);
    let bug = SYNCHRONISE.bugs.iter().find(|bug| bug.name == "gradients-unsynchronised").unwrap();
    let core = Core { synchronise: bug.implementation, ..Core::default() };
    let outcome = launch(2, &Options::default(), |rank| {
        let mut run = run(&plan(adamw(), 20, 1), model(&config, DType::F32, seed), &data, rank.observer());
        let settings = Settings { core, check_every: 4, failure: None };
        let mut replica = Replica::begin(rank.communicator().as_ref(), &run, settings)?;
        replica.train(&mut run, &Interrupt::default(), None, |_| {})
    });
    let message = outcome.unwrap_err().to_string();
    assert!(message.contains("rank 1's") && message.contains("after step 3"), "{message}");
}

#[test]
fn a_rank_that_fails_in_step_seven_is_named_and_the_others_keep_seven_steps() {
    let (seed, config) = (fresh_seed(), config(false));
    let data = corpus(config.vocab, 4000, seed);
    for failing in 0..3 {
        let steps = std::sync::Mutex::new(Vec::new());
        let outcome = launch(3, &Options::default(), |rank| {
            let mut run = run(&plan(adamw(), 20, 1), model(&config, DType::F32, seed), &data, rank.observer());
            let settings =
                Settings { failure: Some(InjectedFailure { rank: failing, step: 7 }), ..Settings::default() };
            let mut replica = Replica::begin(rank.communicator().as_ref(), &run, settings)?;
            let ended = replica.train(&mut run, &Interrupt::default(), None, |_| {});
            steps.lock().unwrap().push((rank.rank(), run.steps_done()));
            ended
        });
        let collective::Error::Failed(failure) = outcome.unwrap_err() else { panic!("not a failure of a rank") };
        assert!(matches!(&*failure, Failure::Error { rank, .. } if *rank == failing), "{failure}");
        assert!(failure.to_string().contains("step 7 fails"), "{failure}");
        let steps = steps.into_inner().unwrap();
        assert!(steps.len() == 3 && steps.iter().all(|&(_, steps)| steps == 7), "rank, steps: {steps:?}");
    }
}

#[test]
fn an_interrupt_that_one_rank_sees_ends_all_after_the_same_step() {
    let (seed, config) = (fresh_seed(), config(false));
    let data = corpus(config.vocab, 4000, seed);
    let ended = launch(4, &Options::default(), |rank| {
        let mut run = run(&plan(adamw(), 20, 1), model(&config, DType::F32, seed), &data, rank.observer());
        let interrupt = Interrupt::default();
        let mut replica = Replica::begin(rank.communicator().as_ref(), &run, Settings::default())?;
        let end = replica.train(&mut run, &interrupt, None, |record| {
            if rank.rank() == 2 && record.step == 5 {
                interrupt.request();
            }
        })?;
        Ok::<_, Error>((end, run.steps_done()))
    });
    let ended = ended.unwrap();
    assert!(ended.iter().all(|(end, _)| *end == End::Interrupted), "{ended:?}");
    assert!(ended.iter().all(|(_, steps)| *steps == ended[0].1 && *steps < 8), "{ended:?}");
}
