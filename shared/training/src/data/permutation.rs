//! A shuffled order as a function: nothing is stored, and any position can be asked for.
//!
//! A Feistel network is a bijection of the numbers of 2k bits, whatever its round function is (Luby & Rackoff, 1988). Numbers below
//! `len` that it maps to `len` or more are mapped again until they are below: that is a bijection of the numbers below `len`
//! (cycle walking, Black & Rogaway, 2002). As 2k bits are fewer than 4 · `len` numbers, this takes fewer than 4 turns on average.

const ROUNDS: u64 = 6;

/// A permutation of the numbers below `len`, different for each `key`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    len: u64,
    half_bits: u32,
    key: u64,
}

impl Permutation {
    pub(super) fn new(len: u64, key: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), key }
    }

    /// Where `index` goes; `index` is below `len`.
    pub(super) fn at(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            value = self.network(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            let mixed = mix(right ^ mix(self.key.wrapping_add(round))) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half_bits | right
    }
}

/// Each bit of the result depends on every bit of `value` (the finaliser of SplitMix64, Steele et al., 2014).
pub(super) fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
