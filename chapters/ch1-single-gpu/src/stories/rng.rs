//! The stories' random numbers: splitmix64, whole numbers only, so that every platform tells the same story.

/// Sebastiano Vigna's splitmix64 (<https://prng.di.unimi.it/splitmix64.c>, public domain algorithm).
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of one story: neighbouring seeds and indices give unrelated streams.
    pub(super) fn for_story(seed: u64, index: u64) -> Self {
        let mut of_seed = Self(seed);
        let mut of_story = Self(of_seed.next() ^ index);
        Self(of_story.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound` (`bound` > 0), by the high half of a 128-bit product.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, all equally likely. The tables are never empty (a test sees to it).
    pub(super) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}
