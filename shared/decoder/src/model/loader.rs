//! Reading weights into the model: the right part, under the right name.

use crate::config::Config;
use crate::error::Result;
use crate::parameter::Parameter;
use crate::split::Placement;
use crate::weights::{Role, Weights};
use candle_core::{DType, Device};
use ledger::Ledger;

/// Everything that reading one weight needs.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    /// Sizes and names.
    pub config: &'a Config,
    /// The source.
    pub weights: &'a dyn Weights,
    /// Which part is held here.
    pub placement: &'a dyn Placement,
    /// Type to hold it in.
    pub dtype: DType,
    /// Where to hold it.
    pub device: &'a Device,
}

impl Loader<'_> {
    /// This rank's part of the weight with `role`; for a weight of a layer, of layer `layer` of the whole model.
    ///
    /// # Errors
    /// The weight cannot be read, or does not fit this rank's device.
    pub fn read(&self, role: Role, layer: usize) -> Result<Parameter> {
        let spec = self.config.weight(role, layer);
        let part = self.placement.part(&spec);
        let value = self.weights.read(&spec, &part, self.dtype, self.device)?;
        // A weight is not an observed operation, but it may be the one that no longer fits.
        Ledger::of_this_thread().check()?;
        Ok(Parameter::new(spec.name, value))
    }

    /// The same, `None` where the config has no such weight.
    ///
    /// # Errors
    /// The weight cannot be read.
    pub fn read_if_present(&self, role: Role, layer: usize) -> Result<Option<Parameter>> {
        self.config.has(role).then(|| self.read(role, layer)).transpose()
    }
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("weights", &self.weights.origin()).finish()
    }
}
