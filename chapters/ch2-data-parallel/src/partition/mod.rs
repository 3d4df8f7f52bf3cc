//! One product, divided: X · W = Y by rows of X, by columns of W, or by rows of W.
//!
//! [`Cut::held`] says which blocks a rank holds, [`Cut::communication`] what it must send, and [`run`] does it: real ranks, each with
//! nothing but its own blocks, forward and backward. One rule explains all three. A product sums over the dimension that its two factors
//! share. Where a cut goes through **that** dimension every rank has only a summand, and an all-reduce must follow; any other cut leaves
//! each rank with finished numbers:
//!
//! | product | sums over | a summand only, if divided by |
//! |---|---|---|
//! | Y = X · W | in | rows of W (and columns of X) |
//! | dX = dY · Wᵀ | out | columns of W |
//! | dW = Xᵀ · dY | rows | rows of X: data parallelism's all-reduce of gradients |

mod run;
mod values;

pub use run::{Outcome, RankOutcome, run};
pub use values::Values;

use crate::core::Core;
use crate::serve::own;
use crate::traffic::{Volume, all_gather, all_reduce};
use candle_core::DType;
use collective::volume::Place;
use collective::{Algorithm, chunk};
use decoder::Error;
use std::ops::Range;

/// Type of all three matrices.
pub const DTYPE: DType = DType::F32;
/// Bytes of an element.
const WIDTH: usize = 4;
/// Most elements of a matrix, so that a mistyped size is an error and not a machine out of memory; and so that sums of dyadic numbers
/// stay exact.
const MOST: usize = 1 << 24;

/// Sizes of X `[rows, inputs]` · W `[inputs, outputs]` = Y `[rows, outputs]`, all at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

/// One of the three matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// Data: a row per token.
    X,
    /// Parameters.
    W,
    /// The result.
    Y,
}

/// Consecutive rows and columns of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

/// What is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// X by rows, W on every rank: data parallelism.
    XByRows,
    /// W by columns, X on every rank: column-parallel.
    WByColumns,
    /// W by rows, X by columns to match: row-parallel.
    WByRows,
}

/// The blocks of one rank. Its gradients dX, dW and dY have the blocks of X, W and Y.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Of X.
    pub x: Block,
    /// Of W.
    pub w: Block,
    /// Of Y, after the communication of the forward.
    pub y: Block,
}

/// A collective operation that a cut needs, on one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// `all-reduce` or `all-gather`.
    pub operation: &'static str,
    /// `Y`, `dX`, `dW`.
    pub matrix: &'static str,
}

/// What one rank must communicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communication {
    /// Which operation the forward needs, if any.
    pub forward: Option<Need>,
    /// And the backward.
    pub backward: Option<Need>,
    /// Calls and bytes of the forward, by this rank.
    pub forward_volume: Volume,
    /// And of the backward.
    pub backward_volume: Volume,
}

impl Product {
    /// # Errors
    /// A size of 0, or a matrix of more than 16,777,216 elements.
    pub fn new(rows: usize, inputs: usize, outputs: usize) -> Result<Self, Error> {
        for (name, size) in [("--rows", rows), ("--in", inputs), ("--out", outputs)] {
            if size == 0 {
                return Err(Error::Setting { name, found: "0".into(), expected: "a whole number from 1 up".into() });
            }
        }
        for (name, height, width) in [("X", rows, inputs), ("W", inputs, outputs), ("Y", rows, outputs)] {
            if height.checked_mul(width).is_none_or(|elements| elements > MOST) {
                let expected = format!("at most {MOST} elements per matrix; take smaller --rows, --in or --out");
                return Err(Error::Setting { name, found: format!("{height} x {width} elements"), expected });
            }
        }
        Ok(Self { rows, inputs, outputs })
    }

    /// Rows and columns of `matrix`.
    pub fn shape(&self, matrix: Matrix) -> (usize, usize) {
        match matrix {
            Matrix::X => (self.rows, self.inputs),
            Matrix::W => (self.inputs, self.outputs),
            Matrix::Y => (self.rows, self.outputs),
        }
    }

    /// All of `matrix`.
    pub fn whole(&self, matrix: Matrix) -> Block {
        let (rows, columns) = self.shape(matrix);
        Block { rows: 0..rows, columns: 0..columns }
    }
}

impl Block {
    /// Elements.
    pub fn elements(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        (self.elements() * WIDTH) as u64
    }
}

impl Held {
    /// X, W and Y together.
    pub fn bytes(&self) -> u64 {
        self.x.bytes() + self.w.bytes() + self.y.bytes()
    }

    /// 2 · rows · in · out of the product that this rank computes itself.
    pub fn forward_flops(&self) -> u64 {
        2 * self.x.elements() as u64 * self.w.columns.len() as u64
    }
}

impl Cut {
    /// All three.
    pub const ALL: [Self; 3] = [Self::XByRows, Self::WByColumns, Self::WByRows];

    /// What is divided, in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::XByRows => "X by rows",
            Self::WByColumns => "W by columns",
            Self::WByRows => "W by rows",
        }
    }

    /// What it is called.
    pub fn method(self) -> &'static str {
        match self {
            Self::XByRows => "data parallelism",
            Self::WByColumns => "tensor parallelism, column-parallel",
            Self::WByRows => "tensor parallelism, row-parallel",
        }
    }

    /// The blocks of rank `rank` of `ranks`. Sizes need not divide: the first ranks have one row or column more, and where there are more
    /// ranks than rows or columns the last ones have none.
    ///
    /// # Errors
    /// `core` gives the rank rows that X does not have.
    pub fn held(self, core: &Core, product: &Product, ranks: usize, rank: usize) -> crate::Result<Held> {
        let [mut x, mut w, mut y] = [Matrix::X, Matrix::W, Matrix::Y].map(|matrix| product.whole(matrix));
        match self {
            Self::XByRows => {
                let rows = own(core, product.rows, ranks, rank)?;
                (x.rows, y.rows) = (rows.clone(), rows);
            }
            // Y is gathered: every rank has all its columns then.
            Self::WByColumns => w.columns = chunk(product.outputs, ranks, rank),
            Self::WByRows => {
                let inputs = chunk(product.inputs, ranks, rank);
                (x.columns, w.rows) = (inputs.clone(), inputs);
            }
        }
        Ok(Held { x, w, y })
    }

    /// What the rank at `place` must send.
    pub fn communication(self, product: &Product, algorithm: Algorithm, place: &Place) -> Communication {
        let need = |operation, matrix| Some(Need { operation, matrix });
        let elements = |matrix| product.whole(matrix).elements();
        match self {
            Self::XByRows => Communication {
                backward: need("all-reduce", "dW"),
                backward_volume: all_reduce(algorithm, place, elements(Matrix::W), WIDTH),
                ..Communication::default()
            },
            Self::WByColumns => {
                let columns = collective::chunks(product.outputs, place.size());
                let parts: Vec<_> = columns.iter().map(|columns| product.rows * columns.len()).collect();
                Communication {
                    forward: need("all-gather", "Y"),
                    forward_volume: all_gather(algorithm, place, &parts, WIDTH),
                    backward: need("all-reduce", "dX"),
                    backward_volume: all_reduce(algorithm, place, elements(Matrix::X), WIDTH),
                }
            }
            Self::WByRows => Communication {
                forward: need("all-reduce", "Y"),
                forward_volume: all_reduce(algorithm, place, elements(Matrix::Y), WIDTH),
                ..Communication::default()
            },
        }
    }
}

#[cfg(test)]
mod tests;
