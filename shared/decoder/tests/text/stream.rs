//! Streaming gives the text of decoding at once, piece by piece, and never half a character.

use decoder::random::Rng;
use decoder::tokenizer::{Stream, Tokenizer};
use serde_json::Value;

use super::vocabularies;

fn load(value: &Value) -> Tokenizer {
    Tokenizer::from_bytes(value.to_string().as_bytes()).unwrap()
}

/// Everything a stream prints for these ids, and what it printed before the flush.
fn printed(mut stream: Stream<'_>, ids: &[u32]) -> (String, String) {
    let before: String = ids.iter().filter_map(|&id| stream.push(id).unwrap()).collect();
    (before.clone() + &stream.flush().unwrap(), before)
}

#[test]
fn pieces_of_random_ids_join_to_the_text_that_the_library_decodes() {
    for (name, value) in vocabularies::all() {
        let (ours, library) = (load(&value), tokenizers::Tokenizer::from_bytes(value.to_string()).unwrap());
        let mut rng = Rng::new(11);
        for case in 0..2000 {
            let ids: Vec<_> = (0..1 + rng.below(40)).map(|_| rng.below(ours.vocab_size() + 2) as u32).collect();
            let skip = case % 2 == 0;
            // The library's own decoders panic when nothing is left to decode.
            let left = ids.iter().any(|&id| ours.token(id).is_some() && !(skip && ours.is_special(id)));
            let expected = if left { library.decode(&ids, skip).unwrap() } else { String::new() };
            let context = format!("{name}, case {case} of seed 11, skip {skip}, ids {ids:?}");
            assert_eq!(ours.decode(&ids, skip).unwrap(), expected, "{context}: decode");
            assert_eq!(printed(ours.stream(skip), &ids).0, expected, "{context}: stream");
        }
    }
}

#[test]
fn every_id_of_a_vocabulary_streams_alone_and_after_another() {
    for (name, value) in vocabularies::all() {
        let tokenizer = load(&value);
        let size = tokenizer.vocab_size() as u32;
        for id in 0..size {
            for ids in [vec![id], vec![size - 1 - id, id], vec![id, id, id]] {
                let expected = tokenizer.decode(&ids, false).unwrap();
                assert_eq!(printed(tokenizer.stream(false), &ids).0, expected, "{name}: ids {ids:?}");
            }
        }
    }
}

#[test]
fn a_long_text_costs_the_same_per_token_everywhere() {
    // With work that grows with the position this would take hours.
    for (name, value) in vocabularies::all() {
        let tokenizer = load(&value);
        let mut rng = Rng::new(3);
        let ids: Vec<_> = (0..100_000).map(|_| rng.below(tokenizer.vocab_size()) as u32).collect();
        assert_eq!(printed(tokenizer.stream(true), &ids).0, tokenizer.decode(&ids, true).unwrap(), "{name}");
        let same = vec![ids[0]; 100_000];
        assert_eq!(printed(tokenizer.stream(true), &same).0, tokenizer.decode(&same, true).unwrap(), "{name}, one id");
    }
}

#[test]
fn an_emoji_over_several_tokens_is_printed_once_and_whole() {
    for value in [vocabularies::byte_level(), vocabularies::sentence_piece()] {
        let tokenizer = load(&value);
        let ids = tokenizer.encode("a😀)", false).unwrap();
        let mut stream = tokenizer.stream(true);
        let mut pieces: Vec<_> = ids.iter().filter_map(|&id| stream.push(id).unwrap()).collect();
        pieces.push(stream.flush().unwrap());
        assert!(ids.len() >= 6, "the emoji lies across tokens: {ids:?}");
        assert_eq!(pieces.concat(), "a😀)");
        assert!(pieces.iter().all(|piece| !piece.contains('\u{fffd}')), "{pieces:?}");
        assert!(pieces.iter().any(|piece| piece.contains('😀')), "{pieces:?}");
    }
}

#[test]
fn a_character_that_was_cut_shows_as_one_replacement_at_the_flush() {
    let tokenizer = load(&vocabularies::byte_level());
    let ids = tokenizer.encode("a😀", false).unwrap();
    let (all, before) = printed(tokenizer.stream(true), &ids[..ids.len() - 1]);
    assert_eq!((all.as_str(), before.as_str()), ("a\u{fffd}", "a"));

    // Byte fallback shows one replacement per byte, as decoding at once does.
    let tokenizer = load(&vocabularies::sentence_piece());
    let ids = tokenizer.encode("a😀", false).unwrap();
    let (all, before) = printed(tokenizer.stream(true), &ids[..ids.len() - 1]);
    assert_eq!((all.as_str(), before.as_str()), ("a\u{fffd}\u{fffd}\u{fffd}", "a"));
}

#[test]
fn a_replacement_character_of_the_text_itself_is_printed_at_once() {
    let tokenizer = load(&vocabularies::byte_level());
    let ids = tokenizer.encode("\u{fffd}", false).unwrap();
    assert_eq!(printed(tokenizer.stream(true), &ids).1, "\u{fffd}");
}

#[test]
fn text_that_ends_in_a_bracket_or_a_newline_is_all_printed() {
    for value in [vocabularies::byte_level(), vocabularies::sentence_piece()] {
        let tokenizer = load(&value);
        for text in ["the)", "the\n", "the\n\n", "a  ", "the )\n", "é"] {
            let ids = tokenizer.encode(text, true).unwrap();
            assert_eq!(printed(tokenizer.stream(true), &ids).0, text);
        }
    }
}

#[test]
fn only_the_space_that_sentence_piece_puts_in_front_is_dropped() {
    let tokenizer = load(&vocabularies::sentence_piece());
    let ids = ["<s>", "▁the", "▁the", "▁", "▁a"].map(|token| {
        (0..tokenizer.vocab_size() as u32).find(|&id| tokenizer.token(id).as_deref() == Some(token)).unwrap()
    });
    let mut stream = tokenizer.stream(true);
    let pieces: Vec<_> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    let expected = [None, Some("the"), Some(" the"), Some(" "), Some(" a")];
    assert_eq!(pieces.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
}

#[test]
fn a_flushed_stream_starts_a_new_text() {
    for (name, value) in vocabularies::all() {
        let tokenizer = load(&value);
        let mut stream = tokenizer.stream(false);
        let mut run = || {
            let pushed: String = [5, 1, 7].iter().filter_map(|&id| stream.push(id).unwrap()).collect();
            pushed + &stream.flush().unwrap()
        };
        assert_eq!(run(), run(), "{name}");
    }
}
