//! What makes a batch the same on one device and on many.
#![allow(clippy::unwrap_used)]

use super::*;
use decoder::random::Rng;
use std::collections::HashSet;

/// Ids that say where they stand.
fn counting(len: usize) -> Arc<TokenData> {
    Arc::new(TokenData::new((0..len as u32).collect(), len.max(1)).unwrap())
}

#[test]
fn an_epoch_visits_every_window_once_in_an_order_of_its_own() {
    let mut random = Rng::new(1);
    for len in (1..40).chain([63, 64, 65, 255, 257, 1000, 4097]) {
        let (seq, seed) = (1 + random.below(7), random.bits());
        let batches = Batches::new(counting(len * seq + 1 + random.below(seq)), seed, 1, seq).unwrap();
        assert_eq!(batches.windows(), len as u64);
        let mut orders = HashSet::new();
        for epoch in 0..4 {
            let steps = epoch * len as u64..(epoch + 1) * len as u64;
            let order: Vec<u32> = steps.map(|step| batches.batch(step).inputs[0]).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let every: Vec<u32> = (0..len).map(|window| (window * seq) as u32).collect();
            assert_eq!(sorted, every, "{len} windows of {seq}, seed {seed}, epoch {epoch}");
            orders.insert(order);
        }
        if len > 20 {
            assert_eq!(orders.len(), 4, "{len} windows, seed {seed}: epochs are reshuffled");
        }
    }
}

#[test]
fn the_order_is_shuffled_not_shifted() {
    let batches = Batches::new(counting(10_001), 5, 1, 1).unwrap();
    let order: Vec<i64> = (0..10_000).map(|step| batches.batch(step).inputs[0].into()).collect();
    let fixed = order.iter().enumerate().filter(|&(at, &window)| at as i64 == window).count();
    assert!(fixed < 10, "a random permutation has 1 fixed point on average, here {fixed}");
    let steps: HashSet<i64> = order.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.len() > 5_000, "only {} different steps", steps.len());
    // Windows of one half of the corpus are not bunched: a run of 100 has about 50 of the first half.
    for run in order.chunks(100) {
        let first = run.iter().filter(|&&window| window < 5_000).count();
        assert!((20..=80).contains(&first), "{first} of 100");
    }
}

#[test]
fn a_target_is_the_next_token() {
    let batches = Batches::new(counting(1000), 3, 4, 16).unwrap();
    for step in [0, 1, 77, u64::MAX / 8] {
        let batch = batches.batch(step);
        assert_eq!((batch.inputs.len(), batch.targets.len(), batch.count()), (64, 64, 64));
        for (input, target) in batch.inputs.iter().zip(&batch.targets) {
            assert_eq!(input + 1, *target);
        }
    }
}

#[test]
fn the_parts_of_ranks_and_micro_batches_are_the_global_batch() {
    let mut random = Rng::new(2);
    for _ in 0..50 {
        let (rows, seq, seed) = (1 + random.below(12), 1 + random.below(9), random.bits());
        let batches = Batches::new(counting(seq * (1 + random.below(30)) + 1), seed, rows, seq).unwrap();
        let step = random.bits() % 1000;
        let global = batches.batch(step);
        let ranks = 1 + random.below(6);
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for rank in 0..ranks {
            // Uneven parts, some of them empty.
            let part = batches.rows(step, rows * rank / ranks..rows * (rank + 1) / ranks).unwrap();
            inputs.extend(part.inputs);
            targets.extend(part.targets);
        }
        assert_eq!((inputs, targets), (global.inputs, global.targets), "{rows} rows over {ranks} ranks, seed {seed}");
    }
}

#[test]
fn another_seed_is_another_order_and_the_same_seed_the_same() {
    let order = |seed| {
        let batches = Batches::new(counting(501), seed, 2, 5).unwrap();
        (0..50).flat_map(|step| batches.batch(step).inputs).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    let orders: HashSet<_> = (0..20).map(order).collect();
    assert_eq!(orders.len(), 20);
}

#[test]
fn ids_are_kept_in_two_bytes_where_they_fit() {
    let small = TokenData::new(vec![0, 65_535], 70_000).unwrap();
    let large = TokenData::new(vec![0, 65_536], 70_000).unwrap();
    assert_eq!((small.bytes(), large.bytes()), (4, 8));
    for data in [small, large] {
        let last = if data.bytes() == 4 { 65_535 } else { 65_536 };
        assert_eq!(Batches::new(Arc::new(data), 0, 1, 1).unwrap().batch(0).targets, [last]);
    }
}

#[test]
fn what_cannot_be_trained_on_is_refused() {
    let says = |result: Result<Batches>, text: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    };
    says(Batches::new(counting(16), 0, 1, 16), "16 tokens are shorter than one sequence");
    says(Batches::new(counting(0), 0, 1, 16), "0 tokens");
    says(Batches::new(counting(100), 0, 0, 16), "batch = 0");
    says(Batches::new(counting(100), 0, 1, 0), "sequence length = 0");
    assert!(Batches::new(counting(17), 0, 1, 16).is_ok(), "exactly one window");
    let message = TokenData::new(vec![1, 2, 10], 10).unwrap_err().to_string();
    assert!(message.contains("token 2 has id 10"), "{message}");
    let batches = Batches::new(counting(100), 0, 4, 5).unwrap();
    assert!(batches.rows(0, 3..5).is_err());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("corpus.txt");
    assert!(TokenData::from_text_file(&path, 256, |_| Ok::<_, String>(vec![])).is_err(), "there is no such file");
    std::fs::write(&path, "abc").unwrap();
    let data = TokenData::from_text_file(&path, 256, |text| Ok::<_, String>(text.bytes().map(u32::from).collect()));
    assert_eq!(data.unwrap().len(), 3);
    assert!(
        TokenData::from_text_file(&path, 256, |_| Err("no such token"))
            .unwrap_err()
            .to_string()
            .contains("no such token")
    );
}

#[test]
fn the_digest_tells_corpora_apart_and_not_how_they_are_held() {
    let digest = |ids: &[u32]| TokenData::new(ids.to_vec(), 1 << 20).unwrap().digest();
    assert_eq!(digest(&[1, 2, 3]), digest(&[1, 2, 3]));
    assert_ne!(digest(&[1, 2, 3]), digest(&[1, 3, 2]));
    assert_ne!(digest(&[1, 2]), digest(&[1, 2, 0]));
    // Two bytes per id, and four.
    assert_ne!(digest(&[1, 2, 3]), digest(&[1, 2, 3 + (1 << 16)]));
    // The well-known sum of no bytes.
    assert_eq!(digest(&[]), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
