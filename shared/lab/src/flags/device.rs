//! Where and in which type to compute: `--device`, `--cpu`, `--dtype`.

use crate::{Error, Result};
use candle_core::{DType, Device};
use clap::{Args, ValueEnum};
use std::fmt;
use std::io::Write as _;
use std::str::FromStr;

/// Where and in which type to compute.
#[derive(Args, Clone, Debug)]
pub struct DeviceFlags {
    /// auto (a GPU where there is one), cpu, cuda or cuda:INDEX
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    pub device: DeviceChoice,
    /// The same as --device cpu
    #[arg(long, conflicts_with = "device")]
    pub cpu: bool,
    /// Type of weights and activations [default: that of the chapter or the checkpoint]
    #[arg(long, value_name = "TYPE", ignore_case = true)]
    pub dtype: Option<DtypeChoice>,
}

impl Default for DeviceFlags {
    fn default() -> Self {
        Self { device: DeviceChoice::Auto, cpu: false, dtype: None }
    }
}

/// What `--device` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU where there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this index.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        match (text.as_str(), text.strip_prefix("cuda:")) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(index)) => {
                index.parse().map(Self::Cuda).map_err(|_| "the index after cuda: is a whole number from 0 up".into())
            }
            _ => Err("auto, cpu, cuda and cuda:INDEX are the devices there are".into()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// What `--dtype` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DtypeChoice {
    /// 32-bit floating point.
    #[value(alias = "float32")]
    F32,
    /// 64-bit floating point: to compare with other software.
    #[value(alias = "float64")]
    F64,
    /// 16 bits with the exponent of f32.
    #[value(alias = "bfloat16")]
    Bf16,
    /// 16 bits, IEEE half precision.
    #[value(alias = "float16")]
    F16,
}

impl DeviceFlags {
    /// The device.
    ///
    /// # Errors
    /// A GPU in a program built without GPUs, a GPU that is not there.
    pub fn device(&self) -> Result<Device> {
        match if self.cpu { DeviceChoice::Cpu } else { self.device } {
            DeviceChoice::Cpu => Ok(Device::Cpu),
            DeviceChoice::Cuda(index) => cuda(index),
            DeviceChoice::Auto if !candle_core::utils::cuda_is_available() => Ok(Device::Cpu),
            DeviceChoice::Auto => cuda(0).or_else(|error| {
                // A build for GPUs on a machine without one: `auto` means the CPU then, and says so.
                let _ = writeln!(std::io::stderr(), "computing on the CPU: {error}");
                Ok(Device::Cpu)
            }),
        }
    }

    /// The type, `default` if none was asked for.
    pub fn dtype(&self, default: DType) -> DType {
        match self.dtype {
            None => default,
            Some(DtypeChoice::F32) => DType::F32,
            Some(DtypeChoice::F64) => DType::F64,
            Some(DtypeChoice::Bf16) => DType::BF16,
            Some(DtypeChoice::F16) => DType::F16,
        }
    }
}

fn cuda(index: usize) -> Result<Device> {
    if !candle_core::utils::cuda_is_available() {
        return Err(Error::Flag {
            flag: "--device",
            found: format!("cuda:{index}"),
            expected:
                "this program was built without GPUs; build it with `cargo run --features cuda …`, or use --device cpu"
                    .to_owned(),
        });
    }
    Device::new_cuda(index).map_err(|error| Error::Device {
        device: format!("cuda:{index}"),
        problem: format!("it cannot be used ({error}); is it there (`nvidia-smi`)? --device cpu computes without it"),
    })
}
