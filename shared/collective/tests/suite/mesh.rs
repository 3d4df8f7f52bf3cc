//! Ranks on a grid.

use crate::inputs::{Data, numbers, operand, watched};
use candle_core::DType;
use collective::{Error, Mesh, Options, ReduceOp, launch};

#[test]
fn coordinates_and_ranks_are_inverse_and_the_last_axis_is_fastest() {
    let mesh = Mesh::new(&[("pp", 2), ("dp", 3), ("tp", 4)]).unwrap();
    assert_eq!((mesh.size(), mesh.axis("dp").unwrap()), (24, 3));
    for rank in 0..24 {
        let coordinates = mesh.coordinates(rank).unwrap();
        assert_eq!(coordinates, [rank / 12, rank / 4 % 3, rank % 4]);
        assert_eq!(mesh.rank(&coordinates).unwrap(), rank);
    }
    assert_eq!(mesh.group(6, &["tp"]).unwrap(), [4, 5, 6, 7]);
    assert_eq!(mesh.group(6, &["dp"]).unwrap(), [2, 6, 10]);
    assert_eq!(mesh.group(6, &["pp", "tp"]).unwrap(), [4, 5, 6, 7, 16, 17, 18, 19]);
    assert_eq!(mesh.groups(&["dp"]).unwrap().len(), 8);
    assert_eq!(mesh.groups(&[]).unwrap().len(), 24);
}

#[test]
fn what_does_not_fit_is_explained() {
    let text = |outcome: Result<Mesh, Error>| outcome.unwrap_err().to_string();
    assert!(text(Mesh::new(&[("dp", 0)])).contains("dp = 0"));
    assert!(text(Mesh::new(&[("dp", 2), ("dp", 2)])).contains("two axes"));
    assert!(text(Mesh::new(&[])).contains("no axis"));
    let message = text(Mesh::filling(8, "dp", &[("tp", 3)]));
    assert!(message.contains("do not divide 8: 1, 2, 4, 8 do"), "{message}");
    assert_eq!(Mesh::filling(8, "dp", &[("tp", 4)]).unwrap(), Mesh::new(&[("dp", 2), ("tp", 4)]).unwrap());
    let mesh = Mesh::new(&[("dp", 2), ("tp", 2)]).unwrap();
    assert!(mesh.axis("ep").unwrap_err().to_string().contains("its axes are dp, tp"));
    assert!(mesh.coordinates(4).unwrap_err().to_string().contains("the last is 3"));
    assert!(mesh.rank(&[0, 2]).unwrap_err().to_string().contains("0 to 1"));
}

#[test]
fn groups_of_two_axes_work_at_the_same_time() {
    watched(30, || {
        let mesh = Mesh::new(&[("dp", 2), ("tp", 3)]).unwrap();
        launch(6, &Options::default(), |rank| {
            let world = rank.communicator().as_ref();
            let (dp, tp) = (mesh.communicator(world, &["dp"])?, mesh.communicator(world, &["tp"])?);
            let own = operand(Data::Dyadic, DType::F64, 2, rank.rank(), &[7]);
            let sum = |group: &[usize]| -> Vec<f64> {
                let all: Vec<_> =
                    group.iter().map(|&rank| numbers(&operand(Data::Dyadic, DType::F64, 2, rank, &[7]))).collect();
                (0..7).map(|index| all.iter().map(|values| values[index]).sum()).collect()
            };
            let first = dp.start_all_reduce(&own, ReduceOp::Sum)?;
            let second = tp.all_reduce(&own, ReduceOp::Sum)?;
            assert_eq!(numbers(&first.wait()?), sum(&mesh.group(rank.rank(), &["dp"])?));
            assert_eq!(numbers(&second), sum(&mesh.group(rank.rank(), &["tp"])?));
            assert_eq!(tp.rank(), mesh.coordinate(rank.rank(), "tp")?);
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}
