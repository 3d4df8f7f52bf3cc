//! Exercise 2.3: loss and gradients of the whole batch. The check gives every rank numbers whose sum is exact, adds them up by itself,
//! and counts what was sent.

use crate::core::Synchronise;
use crate::synchronise::{sum_of_losses, synchronise};
use crate::{Result, homework, traffic};
use candle_core::{DType, Device, Tensor};
use collective::volume::Place;
use collective::{Algorithm, Communicator, Options, ReduceOp, launch};
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};
use training::Named;
use training::accumulation::Loss;

/// The table.
pub const SYNCHRONISE: Exercise<Synchronise> = Exercise {
    id: "2.3",
    title: "loss and gradients of the whole batch",
    reference: synchronise,
    homework: homework::synchronise,
    stub: super::stub(&["synchronise"]),
    hints: &[
        "Each rank's gradient is already a summand of the whole one: the division by the count of the whole batch is done. What is left to do \
         with summands?",
        "`group.all_reduce_in_place(gradient, ReduceOp::Sum)` for each gradient. A loss is two numbers, a sum and a count: put them into a \
         tensor of f64 and reduce that, too.",
        "for gradient in gradients.values_mut() { group.all_reduce_in_place(gradient, ReduceOp::Sum)?; } and, for the loss, \
         Tensor::new(&[loss.sum, loss.count as f64], &Device::Cpu)?, all_reduce, to_vec1::<f64>()?.",
    ],
    bugs: &[
        Bug {
            name: "gradients-unsynchronised",
            what: "only the loss is summed: every rank trains a model of its own",
            implementation: unsynchronised,
            diagnosis: "still its own",
        },
        Bug {
            name: "gradients-averaged",
            what: "the sum is divided by the ranks once more",
            implementation: averaged,
            diagnosis: "divided by the number of ranks",
        },
        Bug {
            name: "loss-of-one-rank",
            what: "the loss that is reported is that of the own rows",
            implementation: loss_of_one_rank,
            diagnosis: "the loss is that of the rank's own rows",
        },
        Bug {
            name: "loss-mean-of-means",
            what: "losses are averaged over ranks, however many targets each has",
            implementation: mean_of_means,
            diagnosis: "mean of the ranks' means",
        },
        Bug {
            name: "gradients-gathered",
            what: "all gradients go to all ranks, and are added there",
            implementation: gathered,
            diagnosis: "all-reduce sends",
        },
    ],
    check,
};

/// Lengths of the gradients: some do not divide, one is shorter than the group.
const SHAPES: [(&str, &[usize]); 4] = [("embedding", &[7, 10]), ("head", &[64]), ("norm", &[3]), ("up", &[5, 12])];
/// What an implementation may send more than one all-reduce for each gradient: a share, and a few small messages.
const SLACK: (f64, u64) = (1.1, 256);

fn check(synchronise: &Synchronise) -> std::result::Result<(), Diagnosis> {
    for ranks in [2, 3, 4] {
        let losses: Vec<_> =
            (0..ranks).map(|rank| Loss { sum: 12.5 * (rank + 1) as f64, count: 3 + 2 * rank }).collect();
        let parts: Vec<_> = (0..ranks).map(drawn).collect::<std::result::Result<_, _>>()?;
        let after = launch(ranks, &Options::default(), |rank| {
            let (mut loss, mut gradients) = (losses[rank.rank()], copies(&parts[rank.rank()])?);
            synchronise(rank.communicator().as_ref(), &mut loss, &mut gradients)?;
            Ok::<_, crate::Error>((loss, gradients, rank.traffic().sent().total()))
        })?;
        for (rank, (loss, gradients, sent)) in after.iter().enumerate() {
            let here = format!("{ranks} ranks, rank {rank}");
            check_gradients(&here, rank, gradients, &parts)?;
            check_loss(&here, *loss, losses[rank], &losses)?;
            let sizes = traffic::gradient_sizes(gradients);
            let least = traffic::synchronisation(Algorithm::Ring, &Place::flat(rank, ranks), &sizes).sent.total();
            Diagnosis::unless(*sent <= (least as f64 * SLACK.0) as u64 + SLACK.1, || {
                format!("{here}: {sent} bytes were sent; an all-reduce sends {least}, and gives the same.")
            })?;
        }
    }
    Ok(())
}

/// Gradients of one rank: quarters, which add up exactly in any order.
fn drawn(rank: usize) -> candle_core::Result<Named> {
    let mut rng = Rng::new(rank as u64 + 1);
    let gradient = |&(name, shape): &(&str, &[usize])| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| (rng.below(64) as f64 - 31.5) / 4.0).collect();
        Ok((name.into(), Tensor::from_vec(values, shape, &Device::Cpu)?))
    };
    SHAPES.iter().map(gradient).collect()
}

/// In memory of their own: an implementation may write over them.
fn copies(gradients: &Named) -> candle_core::Result<Named> {
    gradients.iter().map(|(name, gradient)| Ok((name.clone(), gradient.copy()?))).collect()
}

fn check_gradients(here: &str, rank: usize, found: &Named, parts: &[Named]) -> std::result::Result<(), Diagnosis> {
    for (name, own) in &parts[rank] {
        let values = |gradients: &Named| -> std::result::Result<Vec<f64>, Diagnosis> {
            let gradient = gradients.get(name).ok_or_else(|| Diagnosis::new(format!("{here}: {name} is gone.")))?;
            if gradient.dims() != own.dims() || gradient.dtype() != DType::F64 {
                return Err(Diagnosis::new(format!("{here}: {name} has another shape or type than before.")));
            }
            Ok(gradient.flatten_all()?.to_vec1()?)
        };
        let all = parts.iter().map(values).collect::<std::result::Result<Vec<_>, _>>()?;
        let sum: Vec<f64> = (0..own.elem_count()).map(|index| all.iter().map(|part| part[index]).sum()).collect();
        let found = values(found)?;
        let is = |expected: &dyn Fn(usize) -> f64| {
            (0..found.len()).all(|index| (found[index] - expected(index)).abs() < 1e-9)
        };
        if is(&|index| sum[index]) {
            continue;
        }
        return Err(Diagnosis::new(match () {
            () if is(&|index| all[rank][index]) => format!("{here}: the gradient of {name} is still its own."),
            () if is(&|index| sum[index] / parts.len() as f64) => format!(
                "{here}: the gradient of {name} is the sum, divided by the number of ranks. The division by the count of the whole batch \
                 was done before."
            ),
            () => format!("{here}: the gradient of {name} begins with {}, the sum with {}.", found[0], sum[0]),
        }));
    }
    Ok(())
}

fn check_loss(here: &str, found: Loss, own: Loss, all: &[Loss]) -> std::result::Result<(), Diagnosis> {
    let expected: Loss = all.iter().copied().sum();
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    if near(found.sum, expected.sum) && found.count == expected.count {
        return Ok(());
    }
    let mean_of_means = all.iter().map(|loss| loss.mean()).sum::<f64>() / all.len() as f64;
    Err(Diagnosis::new(match () {
        () if found == own => format!("{here}: the loss is that of the rank's own rows."),
        () if near(found.mean(), mean_of_means) => format!(
            "{here}: the loss is the mean of the ranks' means, {mean_of_means:.4}. Ranks have unequally many targets: the mean over all is {:.4}.",
            expected.mean()
        ),
        () => format!(
            "{here}: the loss has sum {} and count {}; over all ranks these are {} and {}.",
            found.sum, found.count, expected.sum, expected.count
        ),
    }))
}

fn unsynchronised(group: &dyn Communicator, loss: &mut Loss, _gradients: &mut Named) -> Result<()> {
    *loss = sum_of_losses(group, *loss)?;
    Ok(())
}

fn averaged(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    synchronise(group, loss, gradients)?;
    for gradient in gradients.values_mut() {
        *gradient = (&*gradient / group.size() as f64)?;
    }
    Ok(())
}

fn loss_of_one_rank(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    let own = *loss;
    synchronise(group, loss, gradients)?;
    *loss = own;
    Ok(())
}

fn mean_of_means(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    let mine = Tensor::new(&[loss.mean() / group.size() as f64], &Device::Cpu)?;
    let mean = group.all_reduce(&mine, ReduceOp::Sum)?.to_vec1::<f64>()?[0];
    synchronise(group, loss, gradients)?;
    loss.sum = mean * loss.count as f64;
    Ok(())
}

fn gathered(group: &dyn Communicator, loss: &mut Loss, gradients: &mut Named) -> Result<()> {
    *loss = sum_of_losses(group, *loss)?;
    for gradient in gradients.values_mut() {
        *gradient = group.all_gather(&gradient.unsqueeze(0)?, 0)?.sum(0)?;
    }
    Ok(())
}
