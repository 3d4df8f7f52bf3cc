//! From the flags to a model that is ready to compute.

use crate::Result;
use crate::flags::{DeviceFlags, ModelFlags};
use candle_core::{DType, Device};
use decoder::source::Source;
use decoder::split::Split;
use decoder::tokenizer::Tokenizer;
use decoder::{Config, Decoder};

/// A model's description, tokenizer and where to compute it; nothing large is read yet.
#[derive(Debug)]
pub struct Described {
    /// Folder or file.
    pub source: Source,
    /// The architecture.
    pub config: Config,
    /// Where to compute.
    pub device: Device,
    /// Type of the weights.
    pub dtype: DType,
}

impl Described {
    /// Finds the model that the flags name and reads its description. Weights are f32 unless `--dtype` says otherwise.
    ///
    /// # Errors
    /// There is no such model, its architecture is not supported, or the device is not there.
    pub fn from_flags(model: &ModelFlags, device: &DeviceFlags) -> Result<Self> {
        let source = model.source()?;
        let config = source.config()?;
        Ok(Self { source, config, device: device.device()?, dtype: device.dtype(DType::F32) })
    }

    /// The bundled model on the CPU, its weights in `dtype`.
    ///
    /// # Errors
    /// The workspace's folder `assets` is not there.
    pub fn bundled(dtype: DType) -> Result<Self> {
        let source = ModelFlags::default().source()?;
        let config = source.config()?;
        Ok(Self { source, config, device: Device::Cpu, dtype })
    }

    /// The tokenizer, checked against the model's vocabulary.
    ///
    /// # Errors
    /// There is none, or it has ids that the model does not know.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let tokenizer = self.source.tokenizer()?;
        tokenizer.check_vocab(self.config.vocab)?;
        Ok(tokenizer)
    }

    /// Reads the part of the weights that `split` places here.
    ///
    /// # Errors
    /// A weight is missing or has another shape, or the device has no room.
    pub fn load(&self, split: &Split) -> Result<Decoder> {
        Ok(Decoder::load(&self.config, &*self.source.weights()?, self.dtype, &self.device, split)?)
    }
}
