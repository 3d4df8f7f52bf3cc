//! What a chapter program shows with.
//!
//! A program goes from flags to a validated plan to a run to a result that is shown:
//!
//! - [`program`]: what every `main` shares: errors, exit codes, a closed pipe, threads; [`startup`]: settings of the process;
//! - [`flags`]: the flags that mean the same everywhere, and [`ask`]: `--predict`;
//! - [`loaded`]: from the flags to a model, [`subject`]: or to a published shape, [`batch`]: to sequences of token ids;
//! - [`generated`], [`score`], [`gradients`]: what each chapter computes to be compared with other software;
//! - [`anatomy`]: the operations of one layer, and the split points between them;
//! - [`table`], [`numbers`], [`memory`]: figures as text;
//! - [`timing`], [`roofline`]: how long something takes here, and what the machine can do at most;
//! - [`compared`]: what a formula predicted beside what was measured;
//! - [`variant`]: ways of doing the same work, side by side;
//! - [`plot`], [`trace`]: figures as pictures, spans for Perfetto; [`timeline`]: a run as such spans;
//! - [`exercises`]: the machinery of exercises: implementations, checks, the learner's state;
//! - [`progress`]: how far a run is, on a terminal only;
//! - [`notebook`]: the same figures, tables and pictures in a notebook.

pub mod anatomy;
pub mod ask;
pub mod batch;
pub mod compared;
mod error;
pub mod exercises;
pub mod flags;
pub mod generated;
pub mod gradients;
pub mod loaded;
pub mod memory;
pub mod notebook;
pub mod numbers;
pub mod plot;
pub mod program;
pub mod progress;
pub mod roofline;
pub mod score;
pub mod startup;
pub mod subject;
pub mod table;
pub mod timeline;
pub mod timing;
pub mod trace;
pub mod variant;

pub use compared::{Compared, Comparison};
pub use error::{Error, Result};
pub use table::Table;
