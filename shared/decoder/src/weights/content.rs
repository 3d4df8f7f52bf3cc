//! Recognises files that are not weights at all, by their first bytes.

use super::positioned::PositionedFile;

/// What `file` seems to be instead of weights, and what to do, if it is one of the usual suspects.
pub(super) fn mistaken_for_weights(file: &PositionedFile) -> Option<&'static str> {
    let mut start = vec![0; file.length().min(512) as usize];
    file.read(&mut start, 0).ok()?;
    let text = start.trim_ascii_start();
    let is = |prefix: &str| text.get(..prefix.len()).is_some_and(|found| found.eq_ignore_ascii_case(prefix.as_bytes()));
    if start.is_empty() {
        Some("is empty; download it again")
    } else if is("version https://git-lfs") {
        Some("is a Git LFS pointer, not the file itself; run `git lfs pull` or download it again")
    } else if is("<!doctype") || is("<html") || is("<?xml") {
        Some("is a web page, not weights; it was probably saved in place of a download that needs a login")
    } else if is("PK\u{3}\u{4}") || start.starts_with(&[0x80, 2]) {
        Some("is a PyTorch checkpoint; convert it to safetensors")
    } else if is("GGUF") {
        Some("is a GGUF file; pass the file itself, with the extension .gguf")
    } else {
        None
    }
}
