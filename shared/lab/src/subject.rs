//! What `--model` names where published shapes are known, too: a model to run, or numbers to compute with.

use crate::Result;
use crate::flags::{BUNDLED, DeviceFlags, ModelFlags, assets};
use crate::loaded::Described;
use decoder::shape::{PublishedModel, published};
use std::path::Path;

/// A model to run, or a shape to compute with.
#[derive(Debug)]
pub enum Subject {
    /// A model whose weights can be loaded.
    Loaded(Box<Described>),
    /// A published shape.
    Published(Box<PublishedModel>),
}

impl Subject {
    /// A folder, file or bundled name is loaded, a published name is a shape, anything else is looked for on the hub.
    ///
    /// # Errors
    /// There is no such model; the nearest published names are said.
    pub fn of(model: &ModelFlags, device: &DeviceFlags) -> Result<Self> {
        let name = model.model.as_deref().unwrap_or(BUNDLED);
        let is_here = Path::new(name).exists() || assets().join(name).is_dir();
        let is_shape = if is_here { None } else { Some(published(name)) };
        match is_shape {
            Some(Ok(model)) => Ok(Self::Published(Box::new(model))),
            // Neither a path nor a hub id: only a name can be meant, so the near names help.
            Some(Err(error)) if !name.contains(['/', '\\']) && !name.ends_with(".gguf") => Err(error.into()),
            _ => Ok(Self::Loaded(Box::new(Described::from_flags(model, device)?))),
        }
    }
}
