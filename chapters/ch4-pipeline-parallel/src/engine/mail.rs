//! One rank's sends and receives during a step.

use super::messages::{Endpoint, Message};
use crate::{Error, Result};
use candle_core::{Device, Tensor};
use collective::{Communicator, Pending};
use ledger::Kind;
use std::collections::HashMap;

/// What is under way. Receives are posted as early as the order allows; nothing here blocks but [`Mail::take`] of something that has
/// not arrived, and [`Mail::finish`].
pub(super) struct Mail<'a> {
    communicator: &'a dyn Communicator,
    device: &'a Device,
    order: &'a [Endpoint],
    /// Ends that were issued.
    issued: usize,
    coming: HashMap<Message, Pending<Tensor>>,
    /// From one chunk of this stage to the next.
    here: HashMap<Message, Tensor>,
    leaving: Vec<Pending<()>>,
}

impl<'a> Mail<'a> {
    pub(super) fn new(communicator: &'a dyn Communicator, device: &'a Device, order: &'a [Endpoint]) -> Result<Self> {
        let (coming, here, leaving) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut mail = Self { communicator, device, order, issued: 0, coming, here, leaving };
        mail.post()?;
        Ok(mail)
    }

    /// Posts every receive up to the next send.
    fn post(&mut self) -> Result<()> {
        let _kind = ledger::scope(Kind::Activations);
        while let Some(&Endpoint::Receive(message, from)) = self.order.get(self.issued) {
            self.coming.insert(message, self.communicator.start_recv(from)?);
            self.issued += 1;
        }
        Ok(())
    }

    /// Hands `tensor` over: to another stage, or to another chunk of this one.
    pub(super) fn give(&mut self, message: Message, tensor: Tensor) -> Result<()> {
        match self.order.get(self.issued) {
            Some(&Endpoint::Send(expected, to)) if expected == message => {
                self.leaving.push(self.communicator.start_send(&tensor, to)?);
                self.issued += 1;
                self.post()
            }
            // Of what a stage sends, the order has the next one here; so this is for another of its chunks.
            _ => {
                self.here.insert(message, tensor);
                Ok(())
            }
        }
    }

    /// Waits for `message`.
    pub(super) fn take(&mut self, message: Message) -> Result<Tensor> {
        if let Some(tensor) = self.here.remove(&message) {
            return Ok(tensor);
        }
        let Some(pending) = self.coming.remove(&message) else {
            return Err(Error::Schedule(format!("{message:?} is used before it was sent")));
        };
        let _kind = ledger::scope(Kind::Activations);
        Ok(pending.wait()?.to_device(self.device)?)
    }

    /// Waits until everything has left.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.leaving.drain(..).try_for_each(|pending| Ok(pending.wait()?))
    }
}

/// A stage that fails does not wait for its neighbours: its error must reach them.
impl Drop for Mail<'_> {
    fn drop(&mut self) {
        self.coming.drain().for_each(|(_, pending)| pending.abandon());
        self.leaving.drain(..).for_each(Pending::abandon);
    }
}
