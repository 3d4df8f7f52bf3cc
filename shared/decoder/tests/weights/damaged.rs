//! Files that are not what their name says.

use crate::support::{Draw, assert_says};
use candle_core::DType;
use decoder::weights::folder::Folder;
use decoder::weights::gguf::Gguf;
use std::collections::HashMap;
use tempfile::tempdir;

/// Opens a folder whose `model.safetensors` has these bytes.
fn open(bytes: &[u8]) -> decoder::Result<Folder> {
    let folder = tempdir().unwrap();
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    Folder::open(folder.path())
}

/// A file with this header and so many bytes of data.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[test]
fn what_was_saved_in_place_of_weights_is_recognised() {
    assert_says(open(b""), &["model.safetensors", "empty"]);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 269060552\n";
    assert_says(open(pointer.as_bytes()), &["Git LFS pointer", "git lfs pull"]);
    assert_says(open(b"<!DOCTYPE html>\n<html><body>Log in</body></html>"), &["web page"]);
    assert_says(open(b"  <HTML><body>404</body></HTML>"), &["web page"]);
    assert_says(open(b"PK\x03\x04 a zip archive of tensors"), &["PyTorch", "convert"]);
    assert_says(open(b"GGUF\x03\0\0\0 and so on and on"), &["GGUF", ".gguf"]);
    assert_says(open(b"short"), &["not a safetensors file", "5 bytes"]);
    assert_says(open(&[0xff; 64]), &["not a safetensors file", "64"]);
    let folder = tempdir().unwrap();
    std::fs::create_dir(folder.path().join("model.safetensors")).unwrap();
    assert_says(Folder::open(folder.path()), &["is not a file"]);
}

#[test]
fn a_header_that_contradicts_itself_or_the_file_is_refused() {
    let tensor = |offsets: &str, shape: &str| format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#);
    let (one, two) = (tensor("[0,8]", "[2]"), tensor("[4,12]", "[2]"));
    assert_says(open(&with_header("{ not json", 0)), &["not a safetensors file", "header is wrong"]);
    assert_says(open(&with_header(&format!(r#"{{"a":{one},"b":{two}}}"#), 12)), &["header is wrong", "b"]);
    assert_says(open(&with_header(&format!(r#"{{"a":{two}}}"#), 12)), &["header is wrong", "a"]);
    assert_says(open(&with_header(&format!(r#"{{"a":{}}}"#, tensor("[0,8]", "[3]")), 8)), &["header is wrong"]);
    let absurd = tensor("[0,8]", "[4294967296,4294967296,4294967296]");
    assert_says(open(&with_header(&format!(r#"{{"a":{absurd}}}"#), 8)), &["header is wrong"]);
    let beyond = tensor("[0,18446744073709551612]", "[4611686018427387903]");
    assert_says(open(&with_header(&format!(r#"{{"a":{beyond}}}"#), 8)), &["header is wrong"]);
    assert_says(open(&with_header(&format!(r#"{{"a":{one}}}"#), 7)), &["cut off or damaged"]);
    assert_says(open(&with_header(&format!(r#"{{"a":{one}}}"#), 9)), &["cut off or damaged"]);
    open(&with_header(&format!(r#"{{"a":{one}}}"#), 8)).unwrap();
}

#[test]
fn a_file_cut_anywhere_or_changed_anywhere_in_its_header_is_an_error_or_opens_but_never_panics() {
    let mut draw = Draw::fresh();
    let folder = tempdir().unwrap();
    let file = folder.path().join("model.safetensors");
    let tensors: HashMap<&str, _> =
        ["a", "b"].into_iter().map(|name| (name, draw.tensor(&[30, 10], DType::F32))).collect();
    candle_core::safetensors::save(&tensors, &file).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    assert_says(open(&bytes[..bytes.len() - 100]), &["cut off"]);
    for cut in (0..bytes.len()).step_by(7) {
        assert!(open(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let header = bytes.len() - 2 * 30 * 10 * 4;
    for _ in 0..300 {
        let mut changed = bytes.clone();
        changed[draw.below(header)] = draw.next() as u8;
        let _ = open(&changed);
    }
}

#[test]
fn a_gguf_file_that_is_none_says_so() {
    let open = |bytes: &[u8]| {
        let folder = tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        Gguf::open(&path)
    };
    assert_says(open(b""), &["empty"]);
    assert_says(open(b"version https://git-lfs.github.com/spec/v1\noid"), &["git lfs pull"]);
    assert_says(open(b"<html><body>not found, not here</body></html>"), &["web page"]);
    assert_says(open(&[7; 100]), &["does not begin with GGUF"]);
    let header = |version: u32, tensors: u64, entries: u64, rest: &[u8]| {
        [b"GGUF".as_slice(), &version.to_le_bytes(), &tensors.to_le_bytes(), &entries.to_le_bytes(), rest].concat()
    };
    assert_says(open(&header(9, 0, 0, &[])), &["version 9"]);
    assert_says(open(&header(3u32.swap_bytes(), 0, 0, &[])), &["big-endian"]);
    assert_says(open(&header(3, u64::MAX, 0, &[])), &["18446744073709551615 tensors"]);
    assert_says(open(&header(3, 0, 1 << 40, &[])), &["1099511627776 entries"]);
    let entry = |key: &str, value_type: u32, value: &[u8]| {
        [&(key.len() as u64).to_le_bytes(), key.as_bytes(), &value_type.to_le_bytes(), value].concat()
    };
    let open_with = |entry: Vec<u8>| open(&header(3, 0, 1, &entry));
    assert_says(open_with(entry("general.alignment", 4, &0u32.to_le_bytes())), &["general.alignment = 0"]);
    assert_says(open_with(entry("general.alignment", 4, &48u32.to_le_bytes())), &["general.alignment = 48"]);
    assert_says(open_with(entry("general.alignment", 10, &[0; 8])), &["not a u32"]);
    assert_says(open_with(entry("text", 8, &(1u64 << 60).to_le_bytes())), &["announced", "cut off or damaged"]);
    let array = [&0u32.to_le_bytes(), (1u64 << 40).to_le_bytes().as_slice()].concat();
    assert_says(open_with(entry("list", 9, &array)), &["list", "1099511627776 elements"]);
    let nested: Vec<u8> = (0..50).flat_map(|_| [&9u32.to_le_bytes(), 1u64.to_le_bytes().as_slice()].concat()).collect();
    assert_says(open_with(entry("nest", 9, &nested)), &["nest", "too deeply"]);
    assert_says(open_with(entry("what", 77, &[])), &["what", "unknown type 77"]);
}
