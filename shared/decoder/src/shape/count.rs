//! An integer that remembers that it overflowed.
//!
//! Formulas then read as on paper, `2 * count(heads) * head_dim`, and the check is made once, where a result leaves the
//! module: [`Count::u64`] and [`Count::u128`] are errors after any overflow on the way.

use super::model::Size;
use crate::error::{Error, Result};
use std::iter::Sum;
use std::ops::{Add, Mul};

/// A natural number, or the knowledge that it does not fit in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count(Option<u128>);

/// `value` as a [`Count`].
pub(super) fn count(value: impl Into<Count>) -> Count {
    value.into()
}

/// `value` as a [`Count`], if it is at least 1.
///
/// # Errors
/// The value is 0; the message names it `name`.
pub(super) fn positive(name: &'static str, value: u64) -> Result<Count> {
    if value == 0 {
        return Err(Error::Setting { name, found: "0".into(), expected: "at least 1".into() });
    }
    Ok(count(value))
}

impl Count {
    pub(super) const ZERO: Self = Self(Some(0));

    /// The number, if it fits.
    ///
    /// # Errors
    /// It does not fit in 64 bits; the message names it `name`.
    pub(super) fn u64(self, name: &'static str) -> Result<u64> {
        self.0.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| overflow(name, 64))
    }

    /// The number, if it fits.
    ///
    /// # Errors
    /// It does not fit in 128 bits; the message names it `name`.
    pub(super) fn u128(self, name: &'static str) -> Result<u128> {
        self.0.ok_or_else(|| overflow(name, 128))
    }

    /// 1 + 2 + … + self.
    pub(super) fn triangle(self) -> Self {
        let twice = self * (self + 1);
        Self(twice.0.map(|twice| twice / 2))
    }

    /// The smaller of the two.
    pub(super) fn min(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(a, b)| a.min(b)))
    }

    /// `self - other`, 0 where `other` is larger.
    pub(super) fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.zip(other.0).map(|(a, b)| a.saturating_sub(b)))
    }
}

fn overflow(name: &'static str, bits: u32) -> Error {
    Error::Setting {
        name,
        found: format!("a number of more than {bits} bits"),
        expected: "sizes whose product fits; check the shape, the batch and the number of tokens".into(),
    }
}

impl From<u64> for Count {
    fn from(value: u64) -> Self {
        Self(Some(value.into()))
    }
}

impl From<Size> for Count {
    fn from(value: Size) -> Self {
        value.get().into()
    }
}

impl<T: Into<Count>> Add<T> for Count {
    type Output = Self;

    fn add(self, other: T) -> Self {
        Self(self.0.zip(other.into().0).and_then(|(a, b)| a.checked_add(b)))
    }
}

impl<T: Into<Count>> Mul<T> for Count {
    type Output = Self;

    fn mul(self, other: T) -> Self {
        Self(self.0.zip(other.into().0).and_then(|(a, b)| a.checked_mul(b)))
    }
}

impl Mul<Count> for u64 {
    type Output = Count;

    fn mul(self, other: Count) -> Count {
        other * self
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, |sum, next| sum + next)
    }
}
