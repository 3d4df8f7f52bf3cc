//! Where the learner writes: finding the stub, reading its task, putting it back.

use super::About;
use super::source::{Function, functions};
use crate::error::write_file;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// The place of an exercise's stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The chapter's folder: `env!("CARGO_MANIFEST_DIR")`.
    pub folder: &'static str,
    /// The file in it: `src/homework.rs`.
    pub file: &'static str,
    /// The functions to be written, by name; the first one's doc comment is the task.
    pub functions: &'static [&'static str],
}

impl Stub {
    /// The package whose stub it is; folder and package of a chapter share their name.
    pub fn package(&self) -> &'static str {
        self.folder.rsplit(['/', '\\']).next().unwrap_or(self.folder)
    }

    /// The file from the top of the workspace: `chapters/…/src/homework.rs`.
    pub fn shown(&self) -> String {
        let parts: Vec<_> = self.folder.rsplit(['/', '\\']).take(2).collect();
        parts.into_iter().rev().chain([self.file]).collect::<Vec<_>>().join("/")
    }

    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        Path::new(self.folder).join(self.file)
    }

    /// File and line of the first function, as an editor opens it: `chapters/…/src/homework.rs:31`. Without the line where it cannot be
    /// found.
    pub fn place(&self) -> String {
        let line = self.source().and_then(|source| Ok(self.functions_in(&source)?.first().map(|found| found.line)));
        match line {
            Ok(Some(line)) => format!("{}:{line}", self.shown()),
            _ => self.shown(),
        }
    }

    /// The task: the doc comment of the first function.
    ///
    /// # Errors
    /// The file cannot be read, or a function is not in it.
    pub fn task(&self) -> Result<String> {
        let source = self.source()?;
        let found = self.functions_in(&source)?;
        let text = found.first().map_or("", |first| &source[first.whole.clone()]);
        let lines = text.lines().map_while(|line| line.trim_start().strip_prefix("///"));
        Ok(lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n"))
    }

    /// Whether every function is as it was handed out.
    ///
    /// # Errors
    /// As [`Stub::task`].
    pub fn is_untouched(&self, id: &str) -> Result<bool> {
        let source = self.source()?;
        Ok(with_stubs(&source, &self.functions_in(&source)?, id) == source)
    }

    fn source(&self) -> Result<String> {
        std::fs::read_to_string(self.path()).map_err(Error::file("read", &self.path()))
    }

    /// Each function, in the order of [`Stub::functions`].
    fn functions_in(&self, source: &str) -> Result<Vec<Function>> {
        let problem = |name: &str, problem: &str| Error::Stub {
            path: self.shown().into(),
            function: name.to_owned(),
            problem: problem.to_owned(),
        };
        let one = |&name: &&str| match functions(source, name).as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(problem(name, "it is not there, or its braces do not match; `git diff` shows what has changed")),
            _ => Err(problem(name, "there are several of this name; keep one, and give the others another name")),
        };
        self.functions.iter().map(one).collect()
    }
}

/// What [`reset`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Nothing: the stub was as it was handed out.
    Untouched,
    /// The functions are stubs again; what the learner had written is here.
    Saved(PathBuf),
}

/// Puts `todo!` back into the functions of an exercise. Their doc comments and signatures stay; what was written is saved under `folder`
/// first, beside whatever was saved there before.
///
/// # Errors
/// The file cannot be read or written, or a function is not in it. Nothing is changed then.
pub fn reset(about: &About, folder: &Path) -> Result<Reset> {
    let About { id, stub, .. } = about;
    let source = stub.source()?;
    let found = stub.functions_in(&source)?;
    let fresh = with_stubs(&source, &found, id);
    if fresh == source {
        return Ok(Reset::Untouched);
    }
    let written: Vec<_> = found.iter().map(|function| &source[function.whole.clone()]).collect();
    let saved = unused(folder, id);
    write_file(&saved, (written.join("\n\n") + "\n").as_bytes())?;
    // Beside the file and then in its place, so that it is never there in part.
    let (path, new) = (stub.path(), stub.path().with_extension("rs.new"));
    write_file(&new, fresh.as_bytes())?;
    std::fs::rename(&new, &path).map_err(Error::file("replace", &path))?;
    Ok(Reset::Saved(saved))
}

/// `folder/3.2.rs`, or the first of `folder/3.2-2.rs`, … that is not there.
fn unused(folder: &Path, id: &str) -> PathBuf {
    let names = (2_u64..).map(|number| format!("{id}-{number}.rs"));
    let mut paths = std::iter::once(format!("{id}.rs")).chain(names).map(|name| folder.join(name));
    paths.find(|path| !path.exists()).unwrap_or_else(|| folder.join(format!("{id}.rs")))
}

/// `source` with the bodies of `functions` replaced by what a stub holds.
fn with_stubs(source: &str, functions: &[Function], id: &str) -> String {
    let mut text = source.to_owned();
    let mut functions: Vec<_> = functions.iter().collect();
    // From the end, so that the positions before stay what they are.
    functions.sort_by_key(|function| std::cmp::Reverse(function.body.start));
    for function in functions {
        let line = source.lines().nth(function.line - 1).unwrap_or_default();
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let body = format!("{{\n{indent}    todo!(\"exercise {id}: cargo homework hint {id}\")\n{indent}}}");
        text.replace_range(function.body.clone(), &body);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    const FRESH: &str = r#"//! Homework.

/// Adds.
///
/// Twice.
pub fn add<'a>(x: &'a u32) -> u32 {
    todo!("exercise 9.1: cargo homework hint 9.1")
}

impl Pair {
    fn twice(&self) -> u32 {
        todo!("exercise 9.1: cargo homework hint 9.1")
    }
}
"#;

    /// A chapter in a folder of its own. Its path is leaked: a stub's is known when the program is compiled.
    fn chapter(source: &str) -> (TempDir, About) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/homework.rs"), source).unwrap();
        let path: &'static str = folder.path().to_str().unwrap().to_owned().leak();
        let stub = Stub { folder: path, file: "src/homework.rs", functions: &["add", "twice"] };
        (folder, About { id: "9.1", title: "adding", stub, hints: &[] })
    }

    fn solved() -> String {
        let todo = "todo!(\"exercise 9.1: cargo homework hint 9.1\")";
        let first = "let text = \"} fn add() {\";\n    match x { 0 => { '}' as u32 } _ => { text.len() as u32 } }";
        FRESH.replacen(todo, first, 1).replacen(todo, "{ 2 * self.0 /* } */ }", 1)
    }

    #[test]
    fn a_reset_gives_back_the_stub_as_it_was_handed_out_and_keeps_what_was_written() {
        let (folder, about) = chapter(&solved());
        let saved = folder.path().join("out/homework");
        assert!(!about.stub.is_untouched("9.1").unwrap());
        for name in ["9.1.rs", "9.1-2.rs", "9.1-3.rs"] {
            fs::write(about.stub.path(), solved()).unwrap();
            assert_eq!(reset(&about, &saved).unwrap(), Reset::Saved(saved.join(name)));
            assert_eq!(fs::read_to_string(about.stub.path()).unwrap(), FRESH);
            let kept = fs::read_to_string(saved.join(name)).unwrap();
            assert!(
                kept.contains("/// Twice.") && kept.contains("'}' as u32") && kept.contains("2 * self.0"),
                "{kept}"
            );
        }
        assert!(about.stub.is_untouched("9.1").unwrap());
        assert_eq!(reset(&about, &saved).unwrap(), Reset::Untouched);
        assert_eq!(fs::read_dir(folder.path().join("src")).unwrap().count(), 1, "nothing is left beside the file");
    }

    #[test]
    fn a_function_that_is_not_there_or_there_twice_is_an_error_and_the_file_stays_as_it_is() {
        let twice = format!("{FRESH}\nfn add() {{}}\n");
        for (source, problem) in [("fn add() {}", "twice"), (twice.as_str(), "several"), ("fn add() {", "add")] {
            let (folder, about) = chapter(source);
            let message = reset(&about, &folder.path().join("out")).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("src/homework.rs"), "{message}");
            assert_eq!(fs::read_to_string(about.stub.path()).unwrap(), source);
            assert!(!folder.path().join("out").exists());
        }
    }

    #[test]
    fn the_task_is_the_doc_comment_and_the_place_is_file_and_line() {
        let (folder, about) = chapter(FRESH);
        assert_eq!(about.stub.task().unwrap(), "Adds.\n\nTwice.");
        assert!(about.stub.place().ends_with("/src/homework.rs:6"), "{}", about.stub.place());
        drop(folder);
        assert!(about.stub.task().unwrap_err().to_string().contains("cannot read"));
        assert!(about.stub.place().ends_with("/src/homework.rs"));
    }

    #[test]
    fn package_and_shown_path_come_from_the_folder_s_name() {
        let stub = Stub { folder: "/somewhere/chapters/ch9-all", file: "src/homework.rs", functions: &[] };
        assert_eq!((stub.package(), stub.shown().as_str()), ("ch9-all", "chapters/ch9-all/src/homework.rs"));
    }
}
