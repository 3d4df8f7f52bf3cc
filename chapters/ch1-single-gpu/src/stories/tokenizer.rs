//! The bundled model's vocabulary: a byte-level BPE (Sennrich et al. 2016; bytes as in GPT-2), trained on the stories.

use decoder::{Error, Result};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer};

use super::{END_OF_TEXT, corpus};

/// Size of the vocabulary: [`END_OF_TEXT`] is id 0, then 256 bytes, then merges. 1,024 / 8 ranks = 128 rows each.
pub const VOCABULARY: usize = 1024;

/// Stories to learn the merges from: more do not change them much.
const CORPUS_BYTES: usize = 1 << 20;

/// Trains the tokenizer on a corpus of `seed`; the same tokenizer on every run.
///
/// `encode` with special tokens puts [`END_OF_TEXT`] in front, as Llama's tokenizers do with their `bos`.
///
/// # Errors
/// Only if the `tokenizers` crate refuses its own settings.
pub fn train(seed: u64) -> Result<Tokenizer> {
    let problem = |source: tokenizers::Error| Error::Tokenizer { problem: source.to_string() };
    // White space around the end-of-text token belongs to it: the line breaks of a corpus file are not learnt.
    let end = AddedToken::from(END_OF_TEXT, true).lstrip(true).rstrip(true);
    let mut trainer: TrainerWrapper = BpeTrainer::builder()
        .vocab_size(VOCABULARY)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(vec![end])
        .show_progress(false)
        .build()
        .into();
    let begin = TemplateProcessing::builder()
        .try_single(format!("{END_OF_TEXT} $A"))
        .map_err(|source| problem(source.into()))?
        .special_tokens(vec![(END_OF_TEXT, 0)])
        .build()
        .map_err(|source| problem(source.into()))?;
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer
        .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
        .with_decoder(Some(ByteLevel::default()))
        .with_post_processor(Some(begin));
    let text = corpus(seed, CORPUS_BYTES).replace(END_OF_TEXT, "");
    tokenizer.train(&mut trainer, text.lines().filter(|line| !line.is_empty())).map_err(problem)?;
    Ok(tokenizer)
}
