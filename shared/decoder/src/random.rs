//! Random numbers of our own, so that a seed means the same thing everywhere.
//!
//! Two sources, for two needs. [`Rng`] is a sequence: sampling a token, shuffling, test inputs. [`Elements`] is a
//! function: the initial value of element `i` of the weight called `name` depends on (seed, name, i) alone, so a rank
//! that holds rows 100..200 computes exactly those, in any order, and every layout starts from the same model.
//!
//! Both stand on splitmix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number Generators*, 2014): a counter
//! that goes up by an odd constant, scrambled. Its output number `i` can be computed without the ones
//! before it. The sequence is xoshiro256++ (Blackman, Vigna, 2019), seeded from splitmix64 as its authors advise.

use std::ops::Range;

/// 2⁶⁴ divided by the golden ratio, made odd: the step of splitmix64's counter.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64's output function: a bijection of the 64-bit words in which every input bit moves every output bit.
fn scramble(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Output number `index` of the splitmix64 sequence that starts at `key`.
fn splitmix(key: u64, index: u64) -> u64 {
    scramble(key.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}

/// A word as a number in [0, 1): its upper 53 bits, as many as an f64 holds.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// Two uniform numbers in [0, 1) to the radius and angle of two independent normal ones (Box and Muller, 1958).
fn polar(first: f64, second: f64) -> (f64, f64) {
    // 1 − u lies in (0, 1], so that the logarithm is finite.
    ((-2.0 * (1.0 - first).ln()).sqrt(), std::f64::consts::TAU * second)
}

/// A seeded sequence of random numbers (xoshiro256++). Not for secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The sequence that belongs to `seed`; every seed is good, 0 too.
    pub fn new(seed: u64) -> Self {
        Self { state: [0, 1, 2, 3].map(|index| splitmix(seed, index)) }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let word = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        word
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        unit(self.bits())
    }

    /// A uniform whole number below `n`, without bias; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        // The words from `fair` up would make the small remainders more likely: they are drawn again.
        let fair = u64::MAX - u64::MAX.checked_rem(n).unwrap_or(0);
        loop {
            let word = self.bits();
            if word < fair {
                return word.checked_rem(n).unwrap_or(0) as usize;
            }
        }
    }

    /// A normal number with mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = polar(self.uniform(), self.uniform());
        radius * angle.cos()
    }
}

/// The random elements of one named weight, each a pure function of (seed, name, element index).
///
/// The key is `scramble(scramble(seed + STEP) ^ fnv1a(name))`, where `fnv1a` is the 64-bit FNV-1a hash of the name's
/// UTF-8 bytes (Fowler, Noll, Vo); word `i` is output `i` of the splitmix64 sequence that starts at the key.
/// A uniform element takes word `i`. Normal elements come in pairs: 2j and 2j + 1 are the cosine and the sine of Box
/// and Muller on words 2j and 2j + 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    key: u64,
}

impl Elements {
    /// The elements of the weight called `name` in the model that belongs to `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { key: scramble(splitmix(seed, 0) ^ hash) }
    }

    /// Element `index`, uniform in [0, 1).
    pub fn uniform(self, index: u64) -> f64 {
        unit(splitmix(self.key, index))
    }

    /// Element `index`, normal with mean 0 and standard deviation 1.
    pub fn normal(self, index: u64) -> f64 {
        self.normal_pair(index / 2)[usize::from(index & 1 == 1)]
    }

    /// The elements `range`, normal; each pair is computed once.
    pub fn normals(self, range: Range<u64>) -> impl Iterator<Item = f64> {
        let mut known = None;
        range.map(move |index| {
            let pair = match known {
                Some((half, pair)) if half == index / 2 => pair,
                _ => self.normal_pair(index / 2),
            };
            known = Some((index / 2, pair));
            pair[usize::from(index & 1 == 1)]
        })
    }

    /// Elements 2j and 2j + 1.
    fn normal_pair(self, j: u64) -> [f64; 2] {
        let (radius, angle) = polar(self.uniform(2 * j), self.uniform(2 * j + 1));
        let (sin, cos) = angle.sin_cos();
        [radius * cos, radius * sin]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Mean, variance, skewness and kurtosis.
    fn moments(values: &[f64]) -> [f64; 4] {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let central = |power| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / n;
        let variance = central(2);
        [mean, variance, central(3) / variance.powf(1.5), central(4) / variance.powi(2)]
    }

    fn assert_normal(what: &str, values: &[f64]) {
        let [mean, variance, skewness, kurtosis] = moments(values);
        // Five standard errors of each estimate at this sample size.
        let error = 5.0 / (values.len() as f64).sqrt();
        assert!(mean.abs() < error, "{what}: mean {mean}");
        assert!((variance - 1.0).abs() < error * 2_f64.sqrt(), "{what}: variance {variance}");
        assert!(skewness.abs() < error * 6_f64.sqrt(), "{what}: skewness {skewness}");
        assert!((kurtosis - 3.0).abs() < error * 24_f64.sqrt(), "{what}: kurtosis {kurtosis}");
    }

    #[test]
    fn the_words_are_those_of_the_published_generators() {
        // splitmix64 from state 1234567, and the state it gives to xoshiro256++: published reference outputs.
        assert_eq!(
            [0, 1].map(|index| splitmix(1_234_567, index)),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn a_seed_gives_one_sequence_and_another_seed_another() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(0).iter().all(|&word| word != 0));
    }

    #[test]
    fn below_is_uniform_and_within_bounds() {
        let (mut rng, n, draws) = (Rng::new(3), 7, 70_000);
        let mut counts = vec![0_usize; n];
        for _ in 0..draws {
            counts[rng.below(n)] += 1;
        }
        let expected = (draws / n) as f64;
        let chi_squared: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
        assert!(chi_squared < 27.9, "six degrees of freedom, p < 1e-4: {chi_squared}, counts {counts:?}");
        assert_eq!((rng.below(1), rng.below(0)), (0, 0));
    }

    #[test]
    fn sequences_and_elements_have_the_moments_of_a_normal_distribution() {
        let mut rng = Rng::new(5);
        assert_normal("sequence", &(0..200_000).map(|_| rng.normal()).collect::<Vec<_>>());
        let elements = Elements::new(5, "model.layers.0.self_attn.q_proj.weight");
        let values: Vec<_> = (0..200_000).map(|index| elements.normal(index)).collect();
        assert_normal("elements", &values);
        let products: Vec<_> = values.windows(2).map(|pair| pair[0] * pair[1]).collect();
        assert!(moments(&products)[0].abs() < 5.0 / 200_000_f64.sqrt(), "neighbouring elements are correlated");
        let uniform: Vec<_> = (0..200_000).map(|index| elements.uniform(index)).collect();
        assert!((moments(&uniform)[0] - 0.5).abs() < 0.004 && (moments(&uniform)[1] - 1.0 / 12.0).abs() < 0.001);
    }

    #[test]
    fn an_element_depends_on_seed_name_and_index_and_on_nothing_else() {
        let backwards: Vec<_> = (0..100).rev().map(|index| Elements::new(1, "a").normal(index)).collect();
        let forwards: Vec<_> = (0..100).map(|index| Elements::new(1, "a").normal(index)).rev().collect();
        assert_eq!(backwards, forwards);
        let firsts: Vec<_> = [(1, "a"), (2, "a"), (1, "b"), (1, "ab"), (1, "ba"), (1, "")]
            .iter()
            .map(|&(seed, name)| Elements::new(seed, name).normal(0).to_bits())
            .collect();
        let distinct: std::collections::HashSet<_> = firsts.iter().collect();
        assert_eq!(distinct.len(), firsts.len());
        // Written down once, so that a model made from a seed stays that model.
        assert_eq!(Elements::new(42, "model.norm.weight").uniform(3), 0.246_142_817_562_982_73);
    }
}
