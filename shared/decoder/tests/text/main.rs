//! Text: tokenizers of every kind against the library they wrap and against recorded ids, streaming against decoding at
//! once, sampling against probabilities computed here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod gguf;
mod json;
mod sampling;
mod smollm2;
mod stream;
mod vocabularies;
