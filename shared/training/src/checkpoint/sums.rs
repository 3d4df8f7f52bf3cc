//! Files with their SHA-256, written and verified.
//!
//! The sum is taken of what the program meant to write, on its way out; verifying reads the disk. Every byte of a checkpoint is covered: the
//! sums' own file must be, to the byte, the one that the other files make.

use super::{Create, MANIFEST, MODEL, OPTIMISER, Sink};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Name that `sha256sum -c` users expect.
pub(super) const FILE: &str = "SHA256SUMS";

const BUFFER: usize = 1 << 18;

/// Writes one file, forces it onto the disk, and returns its line of the sums.
pub(super) fn write(
    folder: &Path,
    name: &str,
    create: Create,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<String> {
    let path = folder.join(name);
    let sink = create(&path).map_err(Error::file("create", &path))?;
    let mut out = BufWriter::with_capacity(BUFFER, Summing { sink, hash: Sha256::new() });
    content(&mut out).and_then(|()| out.flush()).map_err(Error::file("write", &path))?;
    let Summing { mut sink, hash } =
        out.into_inner().map_err(|error| Error::file("write", &path)(error.into_error()))?;
    sink.sync().map_err(Error::file("write", &path))?;
    Ok(line(name, hash))
}

/// An error if a file is missing, or differs in any byte from what was written.
pub(super) fn verify(folder: &Path) -> Result<()> {
    let problem = |problem| Error::Checkpoint { path: folder.to_owned(), problem };
    let sums = read(folder, FILE)?;
    let mut expected = String::new();
    for name in [MANIFEST, MODEL, OPTIMISER] {
        let line = sum(folder, name)?;
        if !sums.split_inclusive(|&byte| byte == b'\n').any(|found| found == line.as_bytes()) {
            return Err(problem(format!("{name} is not what was written: its checksum is not the one in {FILE}")));
        }
        expected += &line;
    }
    if sums != expected.as_bytes() {
        return Err(problem(format!("{FILE} is not what was written")));
    }
    Ok(())
}

fn sum(folder: &Path, name: &str) -> Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    let path = folder.join(name);
    let mut file = open(folder, name)?;
    loop {
        let count = file.read(&mut buffer).map_err(Error::file("read", &path))?;
        if count == 0 {
            return Ok(line(name, hash));
        }
        hash.update(&buffer[..count]);
    }
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(folder, name)?.read_to_end(&mut bytes).map_err(Error::file("read", &folder.join(name)))?;
    Ok(bytes)
}

/// A file that is not there makes the checkpoint unusable; one that cannot be opened (permissions) is an error of its own.
fn open(folder: &Path, name: &str) -> Result<File> {
    let path = folder.join(name);
    File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::Checkpoint { path: folder.to_owned(), problem: format!("half-written: there is no {name}") }
        }
        _ => Error::file("open", &path)(error),
    })
}

/// `<64 hexadecimal digits>  <name>`.
fn line(name: &str, hash: Sha256) -> String {
    use std::fmt::Write;
    let mut line = String::new();
    for byte in hash.finalize() {
        // Writing into a string cannot fail.
        let _ = write!(line, "{byte:02x}");
    }
    line + "  " + name + "\n"
}

struct Summing {
    sink: Box<dyn Sink>,
    hash: Sha256,
}

impl Write for Summing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
