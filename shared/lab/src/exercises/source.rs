//! As much of Rust's syntax as it takes to find a function in a file and where its body ends.
//!
//! [`masked`] blanks out everything in which a brace or the word `fn` means nothing: comments, strings, characters. In what is left,
//! braces can be counted.

use std::ops::Range;

/// A function in a source text, by byte positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// From the first line of its doc comment and attributes to the closing brace.
    pub(super) whole: Range<usize>,
    /// The line that `fn` stands in, from 1.
    pub(super) line: usize,
    /// From the opening brace to the closing one, both included.
    pub(super) body: Range<usize>,
}

/// The functions called `name` in `source`, methods included.
pub(super) fn functions(source: &str, name: &str) -> Vec<Function> {
    let text = masked(source);
    let starts = text.match_indices("fn ").map(|(at, _)| at);
    let named = starts.filter(|&at| {
        let rest = text[at + 3..].trim_start();
        let word_before = text[..at].chars().next_back().is_some_and(is_word);
        !word_before && rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word))
    });
    named.filter_map(|at| function(source, &text, at)).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn function(source: &str, text: &str, at: usize) -> Option<Function> {
    let body = body(text, at)?;
    let start = first_line(source, line_start(source, at));
    Some(Function { whole: start..body.end, line: source[..at].matches('\n').count() + 1, body })
}

/// The body of the function whose `fn` is at `at`; none where a semicolon comes first, as in a trait.
fn body(text: &str, at: usize) -> Option<Range<usize>> {
    let (mut open, mut depth, mut start) = (0_i32, 0_i32, None);
    for (index, c) in text[at..].char_indices() {
        let index = at + index;
        match c {
            '(' | '[' => open += 1,
            ')' | ']' => open -= 1,
            // Within brackets a brace belongs to an array's length.
            '{' if open == 0 || start.is_some() => {
                start = start.or(Some(index));
                depth += 1;
            }
            '}' if start.is_some() => {
                depth -= 1;
                if depth == 0 {
                    return Some(start?..index + 1);
                }
            }
            ';' if open == 0 && start.is_none() => return None,
            _ => {}
        }
    }
    None
}

fn line_start(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The start of the doc comment and the attributes above the line that starts at `start`.
fn first_line(source: &str, mut start: usize) -> usize {
    while start > 0 {
        let above = line_start(source, start - 1);
        let line = source[above..start].trim();
        if !line.starts_with("///") && !line.starts_with("#[") {
            break;
        }
        start = above;
    }
    start
}

/// `source` with comments, strings and characters blanked out; every other byte keeps its place.
pub(super) fn masked(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let after_word = text.chars().next_back().is_some_and(is_word);
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            'r' if !after_word => raw_string(rest),
            'b' | 'c' if !after_word && rest[1..].starts_with('r') => match raw_string(&rest[1..]) {
                0 => 0,
                length => 1 + length,
            },
            '\'' => character(rest),
            _ => 0,
        };
        let kept = if skipped == 0 { c.len_utf8() } else { 0 };
        text.push_str(&rest[..kept]);
        text.extend(rest[..skipped].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        rest = &rest[kept + skipped..];
    }
    text
}

/// Length of the comment that `rest` starts with; they nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the string that `rest` starts with, quotes included.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of the raw string that `rest` starts with; 0 if its `r` is something else.
fn raw_string(rest: &str) -> usize {
    let hashes = rest[1..].bytes().take_while(|&byte| byte == b'#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let (open, close) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
    rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len())
}

/// Length of the character literal that `rest` starts with; 0 for a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        // '\'' and '\u{1f}': the quote that ends it is not the escaped one.
        (Some((_, '\\')), Some((at, escaped))) => {
            let behind = at + escaped.len_utf8();
            rest[behind..].find('\'').map_or(0, |end| behind + end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const SOURCE: &str = r##"
// fn target() { in a comment
/* fn target() { /* nested } */ } */
const TEXT: &str = "fn target() { \" }";
const RAW: &str = r#"fn target() { " }"#;

/// Not this one: `fn target() {`.
fn target_of(x: u32) -> u32 { x }

trait Shape {
    fn area(&self) -> [u32; { 1 + 1 }];
}

/// What it does.
///
/// More.
#[inline]
pub fn target<'a>(text: &'a str, open: char) -> Result<[u8; { 2 }], &'a str> {
    let braces = ['{', '}', '\'', '"', '\u{7b}'];
    'outer: loop {
        match open {
            '{' => { break 'outer }
            b if b == braces[1] => {}
            _ => { let _ = r"}"; let r#fn = b'}'; let _ = (r#fn, br#"}"}"#, c"}"); }
        }
    } // }
    Err(text)
}

fn after() {}
"##;

    #[test]
    fn a_function_ends_at_its_own_brace_whatever_strings_characters_and_comments_hold() {
        let [found] = functions(SOURCE, "target").try_into().unwrap();
        let (whole, body) = (&SOURCE[found.whole.clone()], &SOURCE[found.body.clone()]);
        assert!(whole.starts_with("/// What it does."), "{whole}");
        assert!(body.starts_with("{\n    let braces") && body.ends_with("Err(text)\n}"), "{body}");
        assert_eq!(SOURCE.lines().nth(found.line - 1).unwrap().split('<').next(), Some("pub fn target"));
        assert!(SOURCE[found.body.end..].starts_with("\n\nfn after"));
    }

    #[test]
    fn a_declaration_without_a_body_is_no_function_and_neither_is_a_name_that_only_begins_alike() {
        assert_eq!(functions(SOURCE, "area"), []);
        assert_eq!(functions(SOURCE, "targe"), []);
        assert_eq!(functions(SOURCE, "after").len(), 1);
        assert_eq!(functions("fn open() {", "open"), [], "a body that never ends");
    }

    #[test]
    fn masking_keeps_every_byte_s_place_even_where_a_literal_never_ends() {
        for end in (0..=SOURCE.len()).filter(|&end| SOURCE.is_char_boundary(end)) {
            assert_eq!(masked(&SOURCE[..end]).len(), end);
        }
        let text = "let é = 'é'; let x: &'é str = \"é\"; // é";
        assert_eq!(masked(text).len(), text.len());
        assert_eq!(masked(text).trim_end(), "let é =     ; let x: &'é str =     ;");
    }
}
