//! What a rank asks for: an operation as data ([`Request`]), and its description without the values ([`Call`]), which
//! ranks must agree on.

use crate::elements::travels;
use crate::{Error, Result};
use candle_core::{DType, Tensor};
use std::fmt;

/// How the values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Added, in f32 or wider. Integers wrap around.
    Sum,
    /// The largest; NaN if any is.
    Max,
    /// The smallest; NaN if any is.
    Min,
}

/// The operations of a [`Communicator`](crate::Communicator).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Every rank gets the reduction of all.
    AllReduce,
    /// Every rank gets the tensors of all, one after the other.
    AllGather,
    /// Every rank gets its part of the reduction of all.
    ReduceScatter,
    /// Every rank gets the root's tensor.
    Broadcast,
    /// Rank j gets part j of every rank.
    AllToAll,
    /// One rank's half of a message.
    Send,
    /// The other half.
    Receive,
    /// Both at once.
    SendReceive,
    /// Nobody goes on before everybody is here.
    Barrier,
    /// The group becomes several.
    Split,
}

impl Operation {
    /// The method's name: `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast => "broadcast",
            Self::AllToAll => "all_to_all",
            Self::Send => "send",
            Self::Receive => "recv",
            Self::SendReceive => "send_recv",
            Self::Barrier => "barrier",
            Self::Split => "split",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An operation with its operands, as an engine gets it. The methods of [`Communicator`](crate::Communicator) make
/// these.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Request {
    /// Returns one tensor, or none if the reduction goes over the operand.
    AllReduce { tensor: Tensor, op: ReduceOp, in_place: bool },
    /// Returns one tensor.
    AllGather { tensor: Tensor, dim: usize },
    /// Returns one tensor.
    ReduceScatter { tensor: Tensor, op: ReduceOp, dim: usize },
    /// Returns one tensor.
    Broadcast { tensor: Tensor, root: usize },
    /// Returns one tensor per rank.
    AllToAll { parts: Vec<Tensor> },
    /// Returns none.
    Send { tensor: Tensor, to: usize },
    /// Returns one tensor.
    Receive { from: usize },
    /// Returns one tensor.
    SendReceive { tensor: Tensor, to: usize, from: usize },
    /// Returns none.
    Barrier,
}

impl Request {
    /// Its description.
    pub fn call(&self) -> Call {
        let of = |operation, tensor: &Tensor| Call {
            dtype: Some(tensor.dtype()),
            shape: Some(tensor.dims().to_vec()),
            ..Call::new(operation)
        };
        match self {
            Self::AllReduce { tensor, op, .. } => Call { op: Some(*op), ..of(Operation::AllReduce, tensor) },
            Self::AllGather { tensor, dim } => Call { dim: Some(*dim), ..of(Operation::AllGather, tensor) },
            Self::ReduceScatter { tensor, op, dim } => {
                Call { op: Some(*op), dim: Some(*dim), ..of(Operation::ReduceScatter, tensor) }
            }
            Self::Broadcast { tensor, root } => Call { root: Some(*root), ..of(Operation::Broadcast, tensor) },
            Self::AllToAll { parts } => {
                Call { dtype: parts.first().map(Tensor::dtype), ..Call::new(Operation::AllToAll) }
            }
            Self::Send { tensor, to } => Call { to: Some(*to), ..of(Operation::Send, tensor) },
            Self::Receive { from } => Call { from: Some(*from), ..Call::new(Operation::Receive) },
            Self::SendReceive { tensor, to, from } => {
                Call { to: Some(*to), from: Some(*from), ..of(Operation::SendReceive, tensor) }
            }
            Self::Barrier => Call::new(Operation::Barrier),
        }
    }

    /// The tensors that this rank gives.
    pub fn operands(&self) -> &[Tensor] {
        match self {
            Self::AllReduce { tensor, .. }
            | Self::AllGather { tensor, .. }
            | Self::ReduceScatter { tensor, .. }
            | Self::Broadcast { tensor, .. }
            | Self::Send { tensor, .. }
            | Self::SendReceive { tensor, .. } => std::slice::from_ref(tensor),
            Self::AllToAll { parts } => parts,
            Self::Receive { .. } | Self::Barrier => &[],
        }
    }

    /// What is wrong with it on its own, as rank `rank` of `size`.
    pub(crate) fn check(&self, rank: usize, size: usize) -> Result<()> {
        let call = self.call();
        let wrong = |problem: String| Err(Error::Argument { call: call.to_string(), problem });
        if let Some(tensor) = self.operands().iter().find(|tensor| !travels(tensor.dtype())) {
            let dtype = tensor.dtype().as_str();
            return wrong(format!("{dtype} does not travel: f64, f32, f16, bf16, u32 and i64 do"));
        }
        for (name, peer) in [("root", call.root), ("to", call.to), ("from", call.from)] {
            if let Some(peer) = peer.filter(|&peer| peer >= size) {
                return wrong(format!("{name} = {peer}: the group has the ranks 0 to {}", size - 1));
            }
        }
        if call.operation != Operation::SendReceive && [call.to, call.from].contains(&Some(rank)) {
            return wrong(format!("rank {rank} would wait for itself; use send_recv"));
        }
        if let Self::SendReceive { to, from, .. } = self
            && (*to == rank) != (*from == rank)
        {
            return wrong(format!("rank {rank} would wait for itself: to and from are both {rank} or neither is"));
        }
        if let (Some(dim), Some(shape)) = (call.dim, &call.shape)
            && dim >= shape.len()
        {
            return wrong(format!("dim = {dim}: the tensor has {} dimensions, counted from 0", shape.len()));
        }
        if let Self::AllReduce { tensor, in_place: true, .. } = self
            && !tensor.is_contiguous()
        {
            return wrong("an operand in place must be contiguous".to_owned());
        }
        if let Self::AllToAll { parts } = self {
            if parts.len() != size {
                return wrong(format!("{} parts: one for each of {size} ranks is needed, empty ones too", parts.len()));
            }
            if let Some(other) = parts.iter().find(|part| Some(part.dtype()) != call.dtype) {
                return wrong(format!("a part is of another dtype: {}", other.dtype().as_str()));
            }
        }
        Ok(())
    }
}

/// What a rank asked for, without the values. Ranks of a group must ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// Its reduction.
    pub op: Option<ReduceOp>,
    /// Dtype of the operand.
    pub dtype: Option<DType>,
    /// Shape of the operand.
    pub shape: Option<Vec<usize>>,
    /// Dimension of a gather or scatter.
    pub dim: Option<usize>,
    /// Root of a broadcast, in the group.
    pub root: Option<usize>,
    /// Receiver, in the group.
    pub to: Option<usize>,
    /// Sender, in the group.
    pub from: Option<usize>,
}

impl Call {
    pub(crate) const fn new(operation: Operation) -> Self {
        Self { operation, op: None, dtype: None, shape: None, dim: None, root: None, to: None, from: None }
    }

    /// Whether the two belong to one collective operation. What an all-gather joins may differ along its dimension.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let shape = |call: &Self| {
            let mut shape = call.shape.clone();
            if let (Operation::AllGather, Some(dim), Some(shape)) = (call.operation, call.dim, shape.as_mut())
                && let Some(length) = shape.get_mut(dim)
            {
                *length = 0;
            }
            shape
        };
        let rest = |call: &Self| (call.operation, call.op, call.dtype, call.dim, call.root);
        rest(self) == rest(other) && (self.shape == other.shape || shape(self) == shape(other))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if let Some(dtype) = self.dtype {
            words.push(dtype.as_str().to_owned());
        }
        if let Some(shape) = &self.shape {
            words.push(format!("{shape:?}"));
        }
        if let Some(op) = self.op {
            words.push(format!("{op:?}"));
        }
        for (name, value) in [("dim", self.dim), ("root", self.root), ("to", self.to), ("from", self.from)] {
            words.extend(value.map(|value| format!("{name} {value}")));
        }
        write!(f, "{}({})", self.operation, words.join(" "))
    }
}
