//! What a notebook begins with and shows with.
//!
//! A chapter's module `notebook` hands all of this on, so that a notebook is text and calls: [`begin`] in its first cell, then tables and
//! pictures ([`Show`]), and [`key`] for the numbers that `notebooks/run` compares with the committed ones.
//!
//! Memory is not measured in a notebook: the ledger needs an allocator that the whole process uses, and cells are loaded later.

pub use crate::compared::Unit;
pub use crate::plot::{Axis, Bars, Blocks, Chart, Gantt};
pub use crate::{Compared, Comparison, Table, numbers};
pub use candle_core::{DType, Device, Tensor, Var};
pub use ledger::Bytes;

use crate::{Error, Result, startup};
use std::fmt::Display;
use std::num::NonZeroUsize;

/// Set by `notebooks/run`: a panic ends the process, where evcxr would go on with the next cell.
const STRICT: &str = "NB_STRICT";

/// Prepares the process for the cells that follow, which compute with `threads` threads. To be called in the first cell; again does no
/// harm.
///
/// # Errors
/// Each cell would have a candle of its own, or the process has started threads already.
pub fn begin(threads: NonZeroUsize) -> Result<()> {
    check_that_cells_share_candle()?;
    if std::env::var_os(STRICT).is_some() {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            std::process::exit(101);
        }));
    }
    startup::keep_freed_memory();
    startup::set_threads(threads)
}

/// Writes a number, or a text, that a later run must find again: whole numbers and text exactly, numbers with a decimal point within a
/// thousandth. No times: they differ from machine to machine.
pub fn key(name: &str, value: impl Display) {
    println!("key: {name} = {value}");
}

/// What can be shown under a cell. Of several tables, or several pictures, only a cell's last is seen.
pub trait Show {
    /// Shows it.
    ///
    /// # Errors
    /// A picture that cannot be drawn.
    fn show(&self) -> Result<()>;
}

impl Show for Table {
    fn show(&self) -> Result<()> {
        content("text/html", &self.html());
        content("text/plain", &self.to_string());
        Ok(())
    }
}

impl Show for Comparison {
    fn show(&self) -> Result<()> {
        self.table().show()
    }
}

/// A picture is shown as the SVG that it would write.
macro_rules! show_as_svg {
    ($($picture:ty),*) => {$(
        impl Show for $picture {
            fn show(&self) -> Result<()> {
                content("image/svg+xml", &self.svg()?);
                Ok(())
            }
        }
    )*};
}

show_as_svg!(Chart, Bars, Blocks, Gantt);

/// How evcxr takes what is more than text: between two lines on stdout.
fn content(mime_type: &str, text: &str) {
    println!("EVCXR_BEGIN_CONTENT {mime_type}\n{}\nEVCXR_END_CONTENT", text.trim_end());
}

/// With a candle per cell, tensors of two cells get one number, and a backward silently loses gradients.
fn check_that_cells_share_candle() -> Result<()> {
    let found = if cfg!(feature = "notebook") { object_of_candle() } else { None };
    match found {
        Some(object) if object.contains("candle_dylib") => Ok(()),
        // Only Linux says what an address belongs to; elsewhere the linker's word counts.
        None if cfg!(all(feature = "notebook", not(target_os = "linux"))) => Ok(()),
        found => Err(Error::Notebook {
            problem: format!(
                "candle is linked into {}, so that every cell would have its own and gradients would be lost; the first line of \
                 the notebook must be one :dep, of the chapter, with features = [\"notebook\"], and there must be no other",
                found.unwrap_or_else(|| "this cell".to_owned())
            ),
        }),
    }
}

/// The file that candle's code was loaded from.
fn object_of_candle() -> Option<String> {
    let address = Tensor::matmul as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| holds(line, address).unwrap_or(false))?;
    line.split_whitespace().nth(5).map(str::to_owned)
}

/// Whether a line of `/proc/self/maps`, `start-end permissions offset device inode path`, is about `address`.
fn holds(line: &str, address: usize) -> Option<bool> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
    Some((start?..end?).contains(&address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_process_that_links_candle_by_itself_is_refused_and_told_what_to_write() {
        let message = begin(NonZeroUsize::MIN).unwrap_err().to_string();
        assert!(message.contains("features = [\"notebook\"]"), "{message}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_object_of_an_address_is_found() {
        let object = object_of_candle().unwrap();
        assert_eq!(std::path::Path::new(&object), std::env::current_exe().unwrap());
        assert_eq!(holds("7f00-7fff r-xp 00000000 08:01 42 libcandle_dylib.so", 0x7ffe), Some(true));
        assert_eq!(holds("7f00-7fff r-xp 00000000 08:01 42 libcandle_dylib.so", 0x7fff), Some(false));
    }
}
