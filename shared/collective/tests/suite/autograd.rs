//! Collective operations in the graph: the gradient of what N ranks compute is the gradient of what one would.

use crate::inputs::{Data, numbers, operand, watched};
use candle_core::{DType, Tensor, Var};
use collective::autograd::{copy_to_group, gather_from_group, reduce_from_group, reduce_scatter_to_group};
use collective::{Error, Options, ReduceOp, chunk, launch};

/// Columns `part` of x · w1, then rows `part` of w2, as one rank of a tensor-parallel feed-forward.
#[test]
fn f_and_g_give_the_gradients_of_the_whole_product() {
    watched(60, || {
        for size in [1, 2, 3] {
            launch(size, &Options::default(), |rank| {
                let group = rank.communicator();
                let whole = |seed, shape: &[usize]| operand(Data::Real, DType::F64, seed, 0, shape);
                let (x, w1, w2) = (whole(1, &[4, 5]), whole(2, &[5, 7]), whole(3, &[7, 2]));
                let [vx, v1, v2] = [&x, &w1, &w2].map(|tensor| Var::from_tensor(tensor).unwrap());
                let expected = vx.matmul(&v1)?.sqr()?.matmul(&v2)?.sqr()?.sum_all()?.backward()?;

                let part = chunk(7, size, rank.rank());
                let local1 = Var::from_tensor(&w1.narrow(1, part.start, part.len())?.contiguous()?)?;
                let local2 = Var::from_tensor(&w2.narrow(0, part.start, part.len())?.contiguous()?)?;
                let local_x = Var::from_tensor(&x)?;
                let hidden = copy_to_group(group, &local_x)?.matmul(&local1)?.sqr()?;
                let output = reduce_from_group(group, &hidden.matmul(&local2)?)?;
                let found = output.sqr()?.sum_all()?.backward()?;

                let close = |found: &Tensor, expected: &Tensor| {
                    for (found, expected) in numbers(found).iter().zip(numbers(expected)) {
                        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
                    }
                };
                close(found.get(&local_x).unwrap(), expected.get(&vx).unwrap());
                let first = expected.get(&v1).unwrap().narrow(1, part.start, part.len())?;
                let second = expected.get(&v2).unwrap().narrow(0, part.start, part.len())?;
                close(found.get(&local1).unwrap(), &first);
                close(found.get(&local2).unwrap(), &second);
                assert_eq!(group.traffic().calls(), 2, "one all-reduce forward, one backward");
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    });
}

#[test]
fn gather_and_reduce_scatter_are_each_others_backward() {
    watched(30, || {
        launch(3, &Options::default(), |rank| {
            let group = rank.communicator();
            let part = chunk(5, 3, rank.rank());
            let weight = operand(Data::Dyadic, DType::F64, 9, rank.rank(), &[2, 5]);
            let all: Vec<_> = (0..3).map(|rank| operand(Data::Dyadic, DType::F64, 9, rank, &[2, 5])).collect();

            // The loss is the sum over ranks of (gathered · own weights): a part's gradient is the sum of all ranks'
            // weights there.
            let x = Var::from_tensor(
                &operand(Data::Dyadic, DType::F64, 1, 0, &[2, 5]).narrow(1, part.start, part.len())?.contiguous()?,
            )?;
            let gradients = (gather_from_group(group, &x, 1)? * &weight)?.sum_all()?.backward()?;
            let total = ((&all[0] + &all[1])? + &all[2])?.narrow(1, part.start, part.len())?;
            assert_eq!(numbers(gradients.get(&x).unwrap()), numbers(&total));

            // A summand's gradient is that of the parts it went to: all of them.
            let y = Var::from_tensor(&operand(Data::Dyadic, DType::F64, 4, rank.rank(), &[2, 5]))?;
            let own = weight.narrow(1, part.start, part.len())?;
            let gradients = (reduce_scatter_to_group(group, &y, 1)? * &own)?.sum_all()?.backward()?;
            let gathered = group.all_gather(&own, 1)?;
            assert_eq!(numbers(gradients.get(&y).unwrap()), numbers(&gathered));
            group.all_reduce(&own.sum_all()?, ReduceOp::Max)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}
