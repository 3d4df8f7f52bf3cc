//! Bytes behind tokens: the alphabet of byte-level BPE, and UTF-8 that arrives in parts.

/// The byte that a character stands for in byte-level BPE, `None` if it is not of that alphabet.
///
/// GPT-2 writes each byte as one visible character: bytes that are printable in Latin-1 stand for themselves, the other
/// 68 take the characters from U+0100 up, in order (a space is `Ġ`, a newline `Ċ`).
pub(super) fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    let byte = match code {
        33..=126 | 161..=172 | 174..=255 => code,
        256..=288 => code - 256,
        289..=322 => code - 289 + 127,
        323 => 173,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// The bytes of one token of byte-level BPE. A token with a character outside the alphabet, an added one, is plain
/// text.
pub(super) fn bytes_of(token: &str) -> Vec<u8> {
    token.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Decodes UTF-8 that arrives in parts, to the same text as [`String::from_utf8_lossy`] on the whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Utf8Stream {
    /// The beginning of a character whose end has not arrived: at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// The text that is certain after these bytes; bytes that belong to no character become U+FFFD.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let (mut text, mut done) = (String::new(), 0);
        loop {
            let rest = &self.pending[done..];
            let (valid, wrong) = match std::str::from_utf8(rest) {
                Ok(_) => (rest.len(), None),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            text.push_str(&String::from_utf8_lossy(&rest[..valid]));
            done += valid;
            // No length: the rest is empty, or may become a character.
            let Some(length) = wrong else { break };
            text.push(char::REPLACEMENT_CHARACTER);
            done += length;
        }
        self.pending.drain(..done);
        text
    }

    /// What is left: U+FFFD for a character that was cut, else nothing.
    pub(super) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}
