#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

const SIZES: [(usize, usize, usize); 5] = [(8, 6, 10), (1, 1, 1), (7, 5, 3), (3, 17, 2), (16, 16, 16)];

/// Every block equals that of the whole product, to the last bit, whatever divides and whatever does not.
#[test]
fn a_divided_product_is_the_whole_one_for_any_sizes_and_ranks() {
    for (index, (rows, inputs, outputs)) in SIZES.into_iter().enumerate() {
        let product = Product::new(rows, inputs, outputs).unwrap();
        for ranks in 1..=5 {
            for cut in Cut::ALL {
                let seed = 100 + index as u64;
                let outcome = run(&Core::default(), &product, cut, ranks, Values::Dyadic(seed)).unwrap();
                let what = format!("{rows} x {inputs} x {outputs}, {} on {ranks} ranks, seed {seed}", cut.name());
                assert_eq!(outcome.largest_difference(), 0.0, "{what}");
                for (rank, found) in outcome.ranks.iter().enumerate() {
                    let Held { x, w, y } = &found.held;
                    assert_eq!(found.bytes, [x, w, y].map(Block::bytes), "{what}: bytes held by rank {rank}");
                    let predicted = found.predicted;
                    assert_eq!(found.forward, predicted.forward_volume.sent, "{what}: forward of rank {rank}");
                    assert_eq!(found.backward, predicted.backward_volume.sent, "{what}: backward of rank {rank}");
                }
            }
        }
    }
}

#[test]
fn real_numbers_differ_by_rounding_only() {
    let product = Product::new(33, 257, 65).unwrap();
    for cut in Cut::ALL {
        let outcome = run(&Core::default(), &product, cut, 4, Values::Real(7)).unwrap();
        // Sums of 257 products below 1, rounded at 6e-8 of up to 20.
        assert!(outcome.largest_difference() < 1e-4, "{}: {}", cut.name(), outcome.largest_difference());
    }
}

/// The blocks of all ranks are the matrix, each element once; what is not divided is on every rank.
#[test]
fn each_element_of_what_is_divided_is_on_exactly_one_rank() {
    let product = Product::new(7, 5, 9).unwrap();
    for cut in Cut::ALL {
        for ranks in [1, 3, 8] {
            let held: Vec<Held> =
                (0..ranks).map(|rank| cut.held(&Core::default(), &product, ranks, rank).unwrap()).collect();
            let sum = |of: fn(&Held) -> &Block| held.iter().map(|held| of(held).elements()).sum::<usize>();
            let [x, w, y] = [sum(|held| &held.x), sum(|held| &held.w), sum(|held| &held.y)];
            let expected = match cut {
                Cut::XByRows => [35, 45 * ranks, 63],
                Cut::WByColumns => [35 * ranks, 45, 63 * ranks],
                Cut::WByRows => [35, 45, 63 * ranks],
            };
            assert_eq!([x, w, y], expected, "{} on {ranks} ranks", cut.name());
            let flops: u64 = held.iter().map(Held::forward_flops).sum();
            assert_eq!(flops, 2 * 7 * 5 * 9, "{}: all ranks together compute the product once", cut.name());
        }
    }
}

/// A wrong slice must be seen: two ranks with the same rows.
#[test]
fn two_ranks_with_the_same_rows_are_not_the_whole_product() {
    let core = Core { rows_of_rank: |rows, ranks, _| 0..rows / ranks, ..Core::default() };
    let outcome = run(&core, &Product::new(8, 4, 4).unwrap(), Cut::XByRows, 2, Values::Dyadic(3)).unwrap();
    assert!(outcome.largest_difference() > 0.0);
}

#[test]
fn sizes_without_meaning_are_refused_by_the_flag_s_name() {
    let refused = |rows, inputs, outputs| Product::new(rows, inputs, outputs).unwrap_err().to_string();
    assert!(refused(0, 1, 1).contains("--rows = 0"));
    assert!(refused(1, 0, 1).contains("--in = 0"));
    assert!(refused(1, 1, 0).contains("--out = 0"));
    assert!(refused(1 << 13, 1 << 13, 1).contains("16777216"));
    assert!(refused(usize::MAX, usize::MAX, 1).contains("--rows"));
}
