//! What stands in the matrices: a function of the place, so that a rank makes its own block and never holds the rest.

use super::{Block, Matrix};
use candle_core::{Device, Result, Tensor};

/// How an element follows from its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// −2, −1.5, … 2: every product and every sum of them is exact in f32, so the order of addition does not matter.
    Dyadic(u64),
    /// Evenly in [−1, 1): sums are rounded, in another order for another layout.
    Real(u64),
}

impl Values {
    /// `block` of `matrix` (of dY for [`Matrix::Y`]).
    ///
    /// # Errors
    /// There is no room.
    pub fn block(self, matrix: Matrix, block: &Block) -> Result<Tensor> {
        let Block { rows, columns } = block;
        let row = |row| columns.clone().map(move |column| self.at(matrix, row, column));
        let values: Vec<f32> = rows.clone().flat_map(row).collect();
        Tensor::from_vec(values, (rows.len(), columns.len()), &Device::Cpu)
    }

    fn at(self, matrix: Matrix, row: usize, column: usize) -> f32 {
        let (Self::Dyadic(seed) | Self::Real(seed)) = self;
        let place = [matrix as u64, row as u64, column as u64];
        let bits = place.into_iter().fold(seed, |state, next| mixed(state ^ mixed(next)));
        match self {
            Self::Dyadic(_) => ((bits % 9) as f32 - 4.0) / 2.0,
            // 24 bits are what an f32 holds.
            Self::Real(_) => (bits >> 40) as f32 / (1u32 << 23) as f32 - 1.0,
        }
    }
}

/// SplitMix64's output function: neighbours get unrelated numbers.
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
