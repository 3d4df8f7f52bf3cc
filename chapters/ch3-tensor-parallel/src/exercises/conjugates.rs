//! Exercise 3.3: f and g. The check gives every rank numbers whose sums are exact, differentiates, and counts what was sent in which
//! direction.

use crate::core::Conjugates;
use crate::homework;
use candle_core::{DType, Device, Tensor, Var};
use collective::{Communicator, Options, ReduceOp, autograd, launch};
use decoder::random::Rng;
use lab::exercises::{Bug, Diagnosis, Exercise};
use std::sync::Arc;

/// The table.
pub const CONJUGATES: Exercise<Conjugates> = Exercise {
    id: "3.3",
    title: "f and g",
    reference: Conjugates { f: autograd::copy_to_group, g: autograd::reduce_from_group },
    homework: Conjugates { f: homework::f, g: homework::g },
    stub: super::stub(&["f", "g"]),
    hints: &[
        "x is whole on every rank. Each rank's columns give a summand of its gradient: what must happen to it, and in which direction?",
        "`autograd::with_backward(group, x, forward, backward)` takes both as closures over (group, tensor). One of the two is the identity.",
        "f: forward |_, x| Ok(x.clone()), backward |group, dy| group.all_reduce(dy, ReduceOp::Sum). g: the other way round.",
    ],
    bugs: &[
        Bug {
            name: "f-gradient-not-summed",
            what: "f is the identity in both directions",
            implementation: Conjugates { f: f_identity, g: autograd::reduce_from_group },
            diagnosis: "each rank has its own summand of the gradient of x",
        },
        Bug {
            name: "f-reduces-forward",
            what: "f sums in the forward already",
            implementation: Conjugates { f: autograd::reduce_from_group, g: autograd::reduce_from_group },
            diagnosis: "f changes x on the way forward",
        },
        Bug {
            name: "g-summand-not-summed",
            what: "g hands on the rank's own summand",
            implementation: Conjugates { f: autograd::copy_to_group, g: f_identity },
            diagnosis: "g returns something else than the sum",
        },
        Bug {
            name: "g-reduces-twice",
            what: "g sums in the backward, too",
            implementation: Conjugates { f: autograd::copy_to_group, g: g_both },
            diagnosis: "times too large",
        },
    ],
    check,
};

/// What one rank found.
struct Found {
    f: Tensor,
    f_gradient: Tensor,
    g: Tensor,
    g_gradient: Tensor,
}

fn check(conjugates: &Conjugates) -> Result<(), Diagnosis> {
    for ranks in [2, 3] {
        let x = numbers(100)?;
        let summands = (0..ranks).map(|rank| numbers(rank as u64)).collect::<Result<Vec<_>, _>>()?;
        let sum = total(&summands)?;
        let found = launch(ranks, &Options::default(), |rank| {
            let (group, own) = (rank.communicator(), &summands[rank.rank()]);
            let before = rank.traffic().calls();
            let (f, f_gradient) = differentiated(conjugates.f, group, &x, own)?;
            let sent_by_f = rank.traffic().calls() - before;
            let (g, g_gradient) = differentiated(conjugates.g, group, own, &x)?;
            let sent_by_g = rank.traffic().calls() - before - sent_by_f;
            Ok::<_, collective::Error>((Found { f, f_gradient, g, g_gradient }, sent_by_f, sent_by_g))
        })?;
        for (rank, (found, sent_by_f, sent_by_g)) in found.iter().enumerate() {
            let here = format!("{ranks} ranks, rank {rank}");
            check_f(&here, found, &x, &summands[rank], &sum)?;
            check_g(&here, found, &x, &sum, ranks)?;
            Diagnosis::unless(*sent_by_f <= 1 && *sent_by_g <= 1, || {
                format!("{here}: f made {sent_by_f} calls and g {sent_by_g}, forward and backward; one each is enough.")
            })?;
        }
    }
    Ok(())
}

fn check_f(here: &str, found: &Found, x: &Tensor, own: &Tensor, sum: &Tensor) -> Result<(), Diagnosis> {
    Diagnosis::unless(equal(&found.f, x)?, || {
        format!("{here}: f changes x on the way forward; every rank has the same x already.")
    })?;
    if equal(&found.f_gradient, sum)? {
        return Ok(());
    }
    let own = equal(&found.f_gradient, own)?;
    Err(Diagnosis::new(if own {
        format!("{here}: behind f each rank has its own summand of the gradient of x; the gradient is their sum.")
    } else {
        format!("{here}: the gradient of f's x is not the sum of what the ranks handed back.")
    }))
}

fn check_g(here: &str, found: &Found, dy: &Tensor, sum: &Tensor, ranks: usize) -> Result<(), Diagnosis> {
    Diagnosis::unless(equal(&found.g, sum)?, || {
        format!("{here}: g returns something else than the sum of the ranks' summands.")
    })?;
    if equal(&found.g_gradient, dy)? {
        return Ok(());
    }
    let too_large = equal(&found.g_gradient, &(dy * ranks as f64)?)?;
    Err(Diagnosis::new(if too_large {
        format!("{here}: the gradient of g's summand is {ranks} times too large: every rank has the whole dy already.")
    } else {
        format!("{here}: the gradient of g's summand is not dy, which every rank has.")
    }))
}

/// `across(x)`, and the gradient of x when `dy` comes back.
fn differentiated(
    across: crate::core::Across,
    group: &Arc<dyn Communicator>,
    x: &Tensor,
    dy: &Tensor,
) -> collective::Result<(Tensor, Tensor)> {
    let x = Var::from_tensor(x)?;
    let y = across(group, x.as_tensor())?;
    let gradients = (&y * dy)?.sum_all()?.backward()?;
    let gradient = gradients.get(x.as_tensor()).cloned();
    Ok((y.detach(), gradient.unwrap_or(x.as_tensor().zeros_like()?)))
}

/// Quarters, which add up exactly in any order.
fn numbers(seed: u64) -> candle_core::Result<Tensor> {
    let mut rng = Rng::new(seed + 1);
    let values: Vec<f64> = (0..24).map(|_| (rng.below(64) as f64 - 31.5) / 4.0).collect();
    Tensor::from_vec(values, (2, 3, 4), &Device::Cpu)
}

fn total(all: &[Tensor]) -> candle_core::Result<Tensor> {
    all[1..].iter().try_fold(all[0].clone(), |sum, one| sum + one)
}

fn equal(found: &Tensor, expected: &Tensor) -> candle_core::Result<bool> {
    if found.dims() != expected.dims() || found.dtype() != DType::F64 {
        return Ok(false);
    }
    Ok((found - expected)?.abs()?.max_all()?.to_scalar::<f64>()? == 0.0)
}

fn f_identity(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    autograd::with_backward(group, x, |_, x| Ok(x.clone()), |_, dy| Ok(dy.clone()))
}

fn g_both(group: &Arc<dyn Communicator>, x: &Tensor) -> collective::Result<Tensor> {
    let sum = |group: &dyn Communicator, x: &Tensor| group.all_reduce(x, ReduceOp::Sum);
    autograd::with_backward(group, x, sum, sum)
}
