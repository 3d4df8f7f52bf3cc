//! Collective operations built from messages between two ranks.
//!
//! Each is written once, over a [`Wire`]: send one buffer, receive one, or both at once. What a rank sends is what
//! [`volume`](crate::volume) predicts. Every result is computed once and passed on, so all ranks have the same bits.

pub(crate) mod hierarchical;
pub(crate) mod pairwise;
pub(crate) mod ring;
pub(crate) mod tree;

use crate::elements::Buffer;
use crate::volume::Place;
use crate::{Error, ReduceOp, Request, Result, chunks};
use candle_core::Tensor;
use ledger::Kind;
use std::fmt;
use std::str::FromStr;

/// How a collective operation is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Ranks read each other's memory: fast on this machine, no message, nothing for a link clock to see.
    Direct,
    /// Around a ring: the least bytes per rank, 2(p − 1) steps. (Patarasuk, Yuan: *Bandwidth optimal all-reduce
    /// algorithms for clusters of workstations*, 2009.)
    #[default]
    Ring,
    /// A binomial tree, for all-reduce and broadcast: few steps, more bytes. Gathers and scatters go around the ring,
    /// all-to-all in pairs, as in NCCL.
    Tree,
    /// For all-reduce and broadcast: inside of a node, between nodes, inside of a node again. The rest as under
    /// [`Algorithm::Tree`].
    Hierarchical,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Ring, Self::Tree, Self::Hierarchical];

    /// As a flag's value: `ring`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Hierarchical => "hierarchical",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| Error::Setting {
            name: "algorithm",
            found: text.to_owned(),
            expected: format!("one of {}", Self::ALL.map(Self::name).join(", ")),
        })
    }
}

/// A buffer with the shape of the tensor it came from.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) buffer: Buffer,
    pub(crate) shape: Vec<usize>,
}

impl Parcel {
    pub(crate) fn of(tensor: &Tensor) -> Result<Self> {
        let tensor = tensor.contiguous()?;
        Ok(Self { buffer: Buffer::copy_of(&tensor)?, shape: tensor.dims().to_vec() })
    }

    /// A tensor in memory of the current ledger and kind: the buffer may be another rank's.
    pub(crate) fn to_tensor(&self) -> Result<Tensor> {
        self.buffer.duplicate().into_tensor(&self.shape)
    }
}

/// What an algorithm needs of an engine. Ranks are those of the group.
pub(crate) trait Wire {
    /// Where this rank stands.
    fn place(&self) -> &Place;

    /// Sends and receives at once; returns what was received.
    fn exchange(&mut self, send: Option<(usize, Parcel)>, receive: Option<usize>) -> Result<Option<Parcel>>;

    fn send(&mut self, to: usize, parcel: Parcel) -> Result<()> {
        self.exchange(Some((to, parcel)), None).map(drop)
    }

    fn receive(&mut self, from: usize) -> Result<Parcel> {
        self.exchange(None, Some(from))?.ok_or_else(lost)
    }

    fn send_receive(&mut self, to: usize, parcel: Parcel, from: usize) -> Result<Parcel> {
        self.exchange(Some((to, parcel)), Some(from))?.ok_or_else(lost)
    }
}

fn lost() -> Error {
    candle_core::Error::Msg("an engine lost a message".to_owned()).into()
}

/// The elements of `tensor` cut into `parts`, as views: `tensor` is contiguous.
pub(crate) fn flat_parts(tensor: &Tensor, parts: usize) -> Result<Vec<Tensor>> {
    let flat = tensor.flatten_all()?;
    chunks(flat.elem_count(), parts).into_iter().map(|part| Ok(flat.narrow(0, part.start, part.len())?)).collect()
}

/// `tensor` cut along `dim`, each part contiguous.
pub(crate) fn parts_along(tensor: &Tensor, dim: usize, parts: usize) -> Result<Vec<Tensor>> {
    let cut = |part: std::ops::Range<usize>| Ok(tensor.narrow(dim, part.start, part.len())?.contiguous()?);
    chunks(tensor.dim(dim)?, parts).into_iter().map(cut).collect()
}

/// `parts` joined along `dim`, in memory of `kind` that nobody shares.
pub(crate) fn join(parts: &[Tensor], dim: usize, kind: Kind) -> Result<Tensor> {
    let _kind = ledger::scope(kind);
    match parts {
        [only] => Parcel::of(only)?.to_tensor(),
        // candle's `cat` stumbles over parts without elements.
        _ => {
            let full: Vec<_> = parts.iter().filter(|part| part.elem_count() > 0).collect();
            match (full.as_slice(), parts.first()) {
                ([], Some(first)) => {
                    let mut shape = first.dims().to_vec();
                    shape[dim] = parts.iter().map(|part| part.dims()[dim]).sum();
                    Ok(Tensor::zeros(shape, first.dtype(), first.device())?)
                }
                ([only], _) => Parcel::of(only)?.to_tensor(),
                _ => Ok(Tensor::cat(&full, dim)?),
            }
        }
    }
}

/// Does `request`, whose tensors are contiguous and on CPU; results are allocated as `kind`.
pub(crate) fn run(wire: &mut impl Wire, algorithm: Algorithm, request: &Request, kind: Kind) -> Result<Vec<Tensor>> {
    let place = wire.place().clone();
    let (rank, size) = (place.rank(), place.size());
    let everybody: Vec<_> = (0..size).collect();
    let own = |parcel: Parcel| {
        let _kind = ledger::scope(kind);
        parcel.to_tensor()
    };
    Ok(match request {
        Request::AllReduce { tensor, op, .. } => {
            all_reduce(wire, algorithm, tensor, *op)?;
            Vec::new()
        }
        Request::AllGather { tensor, dim } => {
            let parts = ring::all_gather(wire, &everybody, tensor)?;
            vec![join(&parts, *dim, kind)?]
        }
        Request::ReduceScatter { tensor, op, dim } => {
            let parts = parts_along(tensor, *dim, size)?;
            vec![own(ring::reduce_scatter(wire, &everybody, &parts, *op)?)?]
        }
        Request::Broadcast { tensor, root } => vec![own(broadcast(wire, algorithm, tensor, *root)?)?],
        Request::AllToAll { parts } => {
            let received = pairwise::all_to_all(wire, &everybody, parts)?;
            received.into_iter().map(own).collect::<Result<_>>()?
        }
        Request::Send { tensor, to } => {
            wire.send(*to, Parcel::of(tensor)?)?;
            Vec::new()
        }
        Request::Receive { from } => vec![own(wire.receive(*from)?)?],
        Request::SendReceive { tensor, to, .. } if *to == rank => vec![own(Parcel::of(tensor)?)?],
        Request::SendReceive { tensor, to, from } => vec![own(wire.send_receive(*to, Parcel::of(tensor)?, *from)?)?],
        Request::Barrier => {
            pairwise::barrier(wire)?;
            Vec::new()
        }
    })
}

/// Reduces `tensor` in place.
fn all_reduce(wire: &mut impl Wire, algorithm: Algorithm, tensor: &Tensor, op: ReduceOp) -> Result<()> {
    let everybody: Vec<_> = (0..wire.place().size()).collect();
    match algorithm {
        Algorithm::Tree => tree::all_reduce(wire, &everybody, tensor, op),
        Algorithm::Hierarchical => hierarchical::all_reduce(wire, tensor, op),
        Algorithm::Ring | Algorithm::Direct => {
            ring::all_reduce(wire, &everybody, &flat_parts(tensor, everybody.len())?, op)
        }
    }
}

fn broadcast(wire: &mut impl Wire, algorithm: Algorithm, tensor: &Tensor, root: usize) -> Result<Parcel> {
    let (rank, size) = (wire.place().rank(), wire.place().size());
    let order: Vec<_> = (0..size).map(|distance| (root + distance) % size).collect();
    let own = if rank == root { Some(Parcel::of(tensor)?) } else { None };
    match algorithm {
        Algorithm::Tree => tree::broadcast(wire, &order, own),
        Algorithm::Hierarchical => hierarchical::broadcast(wire, root, own),
        Algorithm::Ring | Algorithm::Direct => ring::broadcast(wire, &order, tensor),
    }
}
