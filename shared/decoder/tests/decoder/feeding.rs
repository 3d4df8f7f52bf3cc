//! One sequence, fed in many ways: the logits depend on the tokens and their positions alone.

use super::models::{Model, all, logits, tokens};
use super::tolerance::{DTYPES, assert_close};
use candle_core::{DType, Device, Tensor};
use decoder::cache::KvCache;
use decoder::{Context, Decoder, Error, Tokens};

/// Feeds `rows` through `cache` in pieces: `plan[row]` are the lengths of its pieces, from position `from` on. A row that has
/// no piece left feeds its last token again, as generation does. Returns each row's logits `[seq, vocab]`.
pub(crate) fn feed(
    decoder: &Decoder,
    cache: &mut dyn KvCache,
    rows: &[Vec<u32>],
    from: usize,
    plan: &[Vec<usize>],
) -> Vec<Tensor> {
    let mut fed = vec![0; rows.len()];
    let mut found: Vec<Vec<Tensor>> = vec![Vec::new(); rows.len()];
    for step in 0..plan.iter().map(Vec::len).max().unwrap() {
        let pieces: Vec<_> = (0..rows.len())
            .map(|row| match plan[row].get(step) {
                Some(length) => fed[row]..fed[row] + length,
                None => rows[row].len() - 1..rows[row].len(),
            })
            .collect();
        let ids: Vec<&[u32]> = rows.iter().zip(&pieces).map(|(row, piece)| &row[piece.clone()]).collect();
        let starts = pieces.iter().map(|piece| from + piece.start).collect();
        let batch = Tokens::new(&ids, starts, &Device::Cpu).unwrap();
        let logits = decoder.logits(&Context::inference(), &batch, Some(cache)).unwrap();
        for (row, piece) in pieces.iter().enumerate().filter(|(row, _)| step < plan[*row].len()) {
            found[row].push(logits.get(row).unwrap().narrow(0, 0, piece.len()).unwrap());
            fed[row] = piece.end;
        }
    }
    found.iter().map(|pieces| Tensor::cat(pieces, 0).unwrap()).collect()
}

/// Each row's logits when it is fed alone, in one piece, without a cache.
fn alone(decoder: &Decoder, rows: &[Vec<u32>]) -> Vec<Tensor> {
    rows.iter().map(|row| logits(decoder, std::slice::from_ref(row)).get(0).unwrap()).collect()
}

fn each_model_and_dtype(test: impl Fn(&Model, &Decoder, DType)) {
    for model in all() {
        for dtype in DTYPES {
            test(&model, &model.load(dtype), dtype);
        }
    }
}

#[test]
fn five_tokens_through_a_cache_give_the_same_logits_in_one_piece_in_two_and_one_by_one() {
    each_model_and_dtype(|model, decoder, dtype| {
        // Alone, with a shorter row, with a longer one.
        for lengths in [&[5][..], &[5, 3], &[5, 7]] {
            let rows = model.rows(lengths);
            let expected = alone(decoder, &rows);
            let in_one: Vec<_> = lengths.iter().map(|&length| vec![length]).collect();
            let in_two: Vec<_> = lengths.iter().map(|&length| vec![2, length - 2]).collect();
            let one_by_one: Vec<_> = lengths.iter().map(|&length| vec![1; length]).collect();
            for plan in [in_one, in_two, one_by_one] {
                let mut cache = decoder.cache(rows.len(), 8).unwrap();
                let found = feed(decoder, &mut cache, &rows, 0, &plan);
                for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let what = format!("{}, {dtype:?}, pieces {plan:?}, row {row}", model.name);
                    assert_close(&what, decoder.activations(), found, expected);
                }
            }
        }
    });
}

#[test]
fn without_a_cache_a_prefix_has_the_logits_of_the_whole() {
    each_model_and_dtype(|model, decoder, dtype| {
        let rows = model.rows(&[5, 5]);
        let whole = logits(decoder, &rows);
        for length in 1..5 {
            let prefixes: Vec<Vec<u32>> = rows.iter().map(|row| row[..length].to_vec()).collect();
            let what = format!("{}, {dtype:?}, the first {length} tokens", model.name);
            let expected = whole.narrow(1, 0, length).unwrap();
            assert_close(&what, decoder.activations(), &logits(decoder, &prefixes), &expected);
        }
    });
}

#[test]
fn a_row_of_a_batch_is_the_same_prompt_alone_whatever_the_padding() {
    each_model_and_dtype(|model, decoder, dtype| {
        let rows = model.rows(&[3, 9, 1]);
        let together = logits(decoder, &rows);
        let next = decoder.next_token_logits(&Context::inference(), &tokens(&rows), None).unwrap();
        for (row, expected) in alone(decoder, &rows).iter().enumerate() {
            let length = rows[row].len();
            let what = format!("{}, {dtype:?}, row {row} of {length} tokens", model.name);
            let found = together.get(row).unwrap().narrow(0, 0, length).unwrap();
            assert_close(&what, decoder.activations(), &found, expected);
            let last = expected.get(length - 1).unwrap();
            assert_close(&what, decoder.activations(), &next.get(row).unwrap(), &last);
        }
    });
}

#[test]
fn going_back_to_an_earlier_position_forgets_what_came_after_it() {
    each_model_and_dtype(|model, decoder, dtype| {
        let rows = model.rows(&[6, 6]);
        let (first, second) = (&rows[..1], &rows[1..]);
        let mut cache = decoder.cache(1, 8).unwrap();
        feed(decoder, &mut cache, first, 0, &[vec![6]]);
        // The other sequence's last four tokens, after the first two of this one.
        let mixed = vec![[&first[0][..2], &second[0][2..]].concat()];
        let found = feed(decoder, &mut cache, &[mixed[0][2..].to_vec()], 2, &[vec![3, 1]]);
        let expected = logits(decoder, &mixed).get(0).unwrap().narrow(0, 2, 4).unwrap();
        let what = format!("{}, {dtype:?}", model.name);
        assert_close(&what, decoder.activations(), &found[0], &expected);
        // The same tokens again.
        let again = feed(decoder, &mut cache, &[mixed[0][2..].to_vec()], 2, &[vec![4]]);
        assert_close(&what, decoder.activations(), &again[0], &expected);
    });
}

#[test]
fn rows_of_a_cache_stand_at_positions_of_their_own() {
    each_model_and_dtype(|model, decoder, dtype| {
        let rows = model.rows(&[7, 4]);
        let mut cache = decoder.cache(2, 7).unwrap();
        // Row 0 goes 5 + 2, row 1 goes 1 + 3: the second step begins at 5 and at 1.
        let found = feed(decoder, &mut cache, &rows, 0, &[vec![5, 2], vec![1, 3]]);
        for (row, expected) in alone(decoder, &rows).iter().enumerate() {
            let what = format!("{}, {dtype:?}, row {row}", model.name);
            assert_close(&what, decoder.activations(), &found[row], expected);
        }
    });
}

#[test]
fn a_sequence_that_does_not_begin_at_0_needs_a_cache() {
    let model = &all()[0];
    let decoder = model.load(DType::F32);
    let later = Tokens::new(&[&[1, 2], &[3]], vec![0, 1], &Device::Cpu).unwrap();
    let error = decoder.logits(&Context::inference(), &later, None).unwrap_err();
    assert!(matches!(error, Error::Setting { name: "positions", .. }), "{error}");
}

#[test]
fn a_cache_that_is_full_says_so_and_is_unchanged() {
    for model in all() {
        let decoder = model.load(DType::F64);
        let rows = model.rows(&[6, 4]);
        let expected = alone(&decoder, &rows);
        let mut cache = decoder.cache(2, 6).unwrap();
        let first: Vec<Vec<u32>> = rows.iter().map(|row| row[..row.len() - 1].to_vec()).collect();
        feed(&decoder, &mut cache, &first, 0, &[vec![5], vec![3]]);
        // Row 0 has room for one token and is given two other ones, from an earlier position on; row 1 would fit.
        let tokens = Tokens::new(&[&[0, 0, 0], &[0, 0]], vec![4, 2], &Device::Cpu).unwrap();
        let error = decoder.logits(&Context::inference(), &tokens, Some(&mut cache)).unwrap_err();
        assert!(matches!(error, Error::ContextLength { needed: 7, available: 6 }), "{error}");
        let last = Tokens::new(&[&rows[0][5..], &rows[1][3..]], vec![5, 3], &Device::Cpu).unwrap();
        let found = decoder.logits(&Context::inference(), &last, Some(&mut cache)).unwrap();
        for row in 0..2 {
            let expected = expected[row].get(rows[row].len() - 1).unwrap();
            let found = found.get(row).unwrap().get(0).unwrap();
            assert_close(&format!("{}, row {row}", model.name), DType::F64, &found, &expected);
        }
    }
}

#[test]
fn a_cache_for_another_number_of_sequences_is_refused() {
    let model = &all()[0];
    let decoder = model.load(DType::F32);
    let mut cache = decoder.cache(2, 8).unwrap();
    let error = decoder.logits(&Context::inference(), &tokens(&model.rows(&[3])), Some(&mut cache)).unwrap_err();
    assert!(matches!(error, Error::Setting { name: "KV cache", .. }), "{error}");
}
