//! Text from ids that arrive one by one.
//!
//! Decoding each id by itself is wrong in three ways: a character can lie across tokens, a decoder can treat the
//! first token differently (SentencePiece drops its leading space), and some decoders look at a whole run of tokens.
//! [`Stream`] prints a piece as soon as later tokens cannot change it, and all pieces together are exactly
//! [`Tokenizer::decode`] of all ids.

use tokenizers::DecoderWrapper;

use super::bytes::{Utf8Stream, bytes_of};
use super::{Tokenizer, problem};
use crate::Result;

/// Decodes one sequence of ids while it grows.
#[derive(Debug, Clone)]
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    skip_special: bool,
    state: State,
}

/// What is remembered of the tokens so far; which, depends on the decoder.
#[derive(Debug, Clone)]
enum State {
    /// No decoder: tokens joined by spaces. Whether there has been one.
    Spaced { begun: bool },
    /// Byte-level BPE: tokens are bytes, the text is their UTF-8.
    Bytes(Utf8Stream),
    /// Any other decoder: the last few tokens are decoded again together with each new one.
    Window(Window),
}

/// Tokens whose text is out already, and tokens that wait for more.
#[derive(Debug, Clone, Default)]
struct Window {
    /// Pieces: first those that only give the decoder its context, then those that wait.
    pieces: Vec<String>,
    /// The text of the context alone, which the text of all pieces begins with.
    printed: String,
    /// A run of byte tokens is one unit to the byte-fallback decoder: if one of them does not fit, all turn into
    /// U+FFFD. It can only be printed when it has ended.
    byte_runs: bool,
}

impl<'a> Stream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, skip_special: bool) -> Self {
        let state = match tokenizer.decoder() {
            None => State::Spaced { begun: false },
            Some(decoder) if is_byte_level(decoder) => State::Bytes(Utf8Stream::default()),
            Some(decoder) => State::Window(Window { byte_runs: has_byte_fallback(decoder), ..Window::default() }),
        };
        Self { tokenizer, skip_special, state }
    }

    /// Takes the next id; gives the text that is certain now, `None` if there is none yet.
    pub fn push(&mut self, id: u32) -> Result<Option<String>> {
        let Some(piece) = self.tokenizer.piece(id, self.skip_special) else { return Ok(None) };
        let text = match &mut self.state {
            State::Spaced { begun: false } => {
                self.state = State::Spaced { begun: true };
                piece
            }
            State::Spaced { begun: true } => format!(" {piece}"),
            State::Bytes(stream) => stream.push(&bytes_of(&piece)),
            State::Window(window) => window.push(piece, self.tokenizer)?,
        };
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// The rest of the text, at the end of the sequence: U+FFFD for a character that was cut. The stream is then as
    /// new.
    pub fn flush(&mut self) -> Result<String> {
        let rest = match &mut self.state {
            State::Spaced { .. } => String::new(),
            State::Bytes(stream) => stream.finish(),
            State::Window(window) => window.advance(self.tokenizer)?,
        };
        *self = Self::new(self.tokenizer, self.skip_special);
        Ok(rest)
    }
}

impl Window {
    fn push(&mut self, piece: String, tokenizer: &Tokenizer) -> Result<String> {
        let waits = self.byte_runs && is_byte_token(&piece);
        self.pieces.push(piece);
        if waits { Ok(String::new()) } else { self.advance(tokenizer) }
    }

    /// The text of the waiting pieces; they become the context.
    fn advance(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let text = tokenizer.join(self.pieces.clone())?;
        let Some(new) = text.strip_prefix(&self.printed) else {
            let printed = &self.printed;
            return Err(problem(format!(
                "this decoder cannot be streamed: after {printed:?} the text became {text:?}"
            )));
        };
        let new = new.to_owned();
        self.shorten(text, tokenizer)?;
        Ok(new)
    }

    /// Keeps as context only the last pieces that have any text, mostly one: what decoders do to the beginning of a
    /// text is then done to the context, whole and with the next pieces alike, and cancels out.
    fn shorten(&mut self, text: String, tokenizer: &Tokenizer) -> Result<()> {
        for start in (0..self.pieces.len()).rev() {
            let context = tokenizer.join(self.pieces[start..].to_vec())?;
            if !context.is_empty() {
                self.pieces.drain(..start);
                self.printed = context;
                return Ok(());
            }
        }
        self.printed = text;
        Ok(())
    }
}

/// Whether decoding is nothing but byte-level BPE's.
fn is_byte_level(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteLevel(_) => true,
        DecoderWrapper::Sequence(sequence) => {
            matches!(sequence.get_decoders(), [only] if is_byte_level(only))
        }
        _ => false,
    }
}

fn has_byte_fallback(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteFallback(_) => true,
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().any(has_byte_fallback),
        _ => false,
    }
}

/// Whether the token stands for one byte, as in `<0x0A>`.
fn is_byte_token(piece: &str) -> bool {
    let digits = piece.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
