//! Published accelerators: memory, bandwidth and peak FLOP/s, from `assets/hardware.toml`. It knows nothing of models.

use super::lookup;
use super::model::Size;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Embedded, so that programs run from anywhere.
const HARDWARE: &str = include_str!("../../../../assets/hardware.toml");

/// Type of the operands of a matrix product; sums are at least as wide as 32 bits unless it is `F64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Precision {
    /// 64-bit float.
    F64,
    /// 32-bit float.
    F32,
    /// 32-bit float, rounded to 10 bits of mantissa by the tensor cores.
    Tf32,
    /// 16-bit float.
    F16,
    /// 16-bit brain float.
    Bf16,
    /// 8-bit float.
    Fp8,
    /// 8-bit integer.
    Int8,
}

impl Precision {
    /// Its usual name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Hardware {
    /// Name as people write it.
    pub name: String,
    /// Other names that it is found by.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Where the figures are from.
    pub source: String,
    /// Memory in bytes.
    pub memory: Size,
    /// Bandwidth between memory and processor, in bytes per second.
    pub bandwidth: Size,
    /// Peak of dense matrix products, in FLOP per second.
    pub peaks: BTreeMap<Precision, Size>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    device: Vec<Hardware>,
}

/// All published devices, in the order of `assets/hardware.toml`.
///
/// # Errors
/// The file that was compiled in is damaged.
pub fn all() -> Result<Vec<Hardware>> {
    let catalogue: Catalogue = toml::from_str(HARDWARE)
        .map_err(|error| Error::Model { origin: "assets/hardware.toml".into(), problem: error.to_string() })?;
    Ok(catalogue.device)
}

impl Hardware {
    /// The device called `name`; case, spaces, dashes and underscores make no difference.
    ///
    /// ```
    /// let h100 = decoder::shape::Hardware::named("h100")?;
    /// assert_eq!(h100.memory.get(), 80_000_000_000);
    /// # Ok::<(), decoder::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is none of that name; the message lists the nearest.
    pub fn named(name: &str) -> Result<Self> {
        let devices = all()?;
        lookup::find("gpu", name, &devices, |device| (&device.name, &device.aliases)).cloned()
    }

    /// Peak FLOP per second at `precision`.
    ///
    /// # Errors
    /// No such figure is published: the device does not support it, or it is not known here.
    pub fn peak(&self, precision: Precision) -> Result<u64> {
        self.peaks.get(&precision).map(|peak| peak.get()).ok_or_else(|| Error::Setting {
            name: "dtype",
            found: format!("{precision} on {}", self.name),
            expected: format!("one of {}", self.peaks.keys().map(Precision::as_str).collect::<Vec<_>>().join(", ")),
        })
    }

    /// FLOP per byte at which computing and reading take equally long: peak / bandwidth. Below it the memory decides
    /// (Williams et al., Roofline, 2009).
    ///
    /// # Errors
    /// As [`Hardware::peak`].
    pub fn ridge(&self, precision: Precision) -> Result<f64> {
        Ok(self.peak(precision)? as f64 / self.bandwidth.get() as f64)
    }
}
