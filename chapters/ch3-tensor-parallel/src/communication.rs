//! What a tensor-parallel model must send, from its sizes alone: call by call, and equal to what the traffic counts.
//!
//! With S = rows · seq · hidden elements of activations, forward and backward of a layer reduce S four times: behind attention and the
//! feed-forward network in the forward (g), before them in the backward (f). With sequence parallelism each all-reduce is a
//! reduce-scatter and an all-gather of the same S, so as many bytes. The embedding and the head add one each way; the loss reduces three
//! numbers per token.

use crate::TensorParallel;
use crate::boundary::Inputs;
use crate::gradients::Summed;
use crate::layout::{Held, Layout};
use ch2_data_parallel::traffic::Volume;
use collective::volume::{self, Place};
use collective::{Algorithm, Operation, Sent, Topology, Traffic, chunks};
use decoder::Config;
use std::sync::Arc;

/// Some calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What for: `attention, forward`.
    pub what: &'static str,
    /// How.
    pub operation: Operation,
    /// Calls and bytes of this rank.
    pub volume: Volume,
}

/// Predicts the traffic of one rank.
#[derive(Clone, Debug)]
pub struct Predictor {
    layout: Arc<Layout>,
    summed: fn(&Layout, decoder::weights::Role, bool) -> Summed,
    algorithm: Algorithm,
    /// The rank in the tensor-parallel group, and in the group that shares its key head.
    place: Place,
    replica: Place,
    /// Bytes of an activation.
    element: usize,
}

/// Tokens that are computed at once, padding included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Sequences.
    pub rows: usize,
    /// Tokens of each.
    pub seq: usize,
}

/// Calls and bytes of all.
pub fn total(exchanges: &[Exchange]) -> Volume {
    exchanges.iter().map(|exchange| exchange.volume).sum()
}

/// Calls and bytes of one operation.
pub fn of_operation(exchanges: &[Exchange], operation: Operation) -> Volume {
    exchanges.iter().filter(|exchange| exchange.operation == operation).map(|exchange| exchange.volume).sum()
}

impl TensorParallel {
    /// Predicts this rank's traffic, for activations of `element` bytes.
    pub fn predictor(&self, algorithm: Algorithm, topology: &Topology, element: usize) -> Predictor {
        Predictor {
            summed: self.core.summed_over,
            ..Predictor::new(self.layout.clone(), self.group.members(), self.group.rank(), algorithm, topology, element)
        }
    }
}

impl Predictor {
    /// For rank `rank` of the group `members` (world ranks).
    pub fn new(
        layout: Arc<Layout>,
        members: &[usize],
        rank: usize,
        algorithm: Algorithm,
        topology: &Topology,
        element: usize,
    ) -> Self {
        let replicas = layout.replicas();
        let sharing = members.chunks(replicas).nth(rank / replicas).unwrap_or_default();
        let (place, replica) = (Place::of(rank, members, topology), Place::of(rank % replicas, sharing, topology));
        Self { layout, summed: crate::gradients::summed_over, algorithm, place, replica, element }
    }

    /// Before anything is computed: ranks that share a key head become a group.
    pub fn setup(&self) -> Vec<Exchange> {
        let volume = Volume { calls: 1, payload: 0, sent: Sent::default() };
        let split = Exchange { what: "group of a shared key head", operation: Operation::Split, volume };
        if self.layout.replicas() > 1 { vec![split] } else { Vec::new() }
    }

    /// A forward of `tokens` through embedding and layers, with whole hidden states between the blocks.
    pub fn forward(&self, tokens: Tokens) -> Vec<Exchange> {
        let (layers, hidden) = (self.layout.config().layers as u64, self.hidden(tokens));
        vec![
            self.all_reduce("embedding", hidden, 1),
            self.all_reduce("attention, forward", hidden, layers),
            self.all_reduce("feed-forward, forward", hidden, layers),
        ]
    }

    /// The logits of `rows` tokens, gathered.
    pub fn logits(&self, rows: usize) -> Vec<Exchange> {
        let tp = self.layout.tp();
        let parts: Vec<_> = (0..tp).map(|rank| rows * self.layout.vocab(rank).len()).collect();
        vec![self.all_gather("logits", &parts, 1)]
    }

    /// Forward, loss and backward of one micro-batch.
    pub fn training(&self, tokens: Tokens, sequence: Option<Inputs>) -> Vec<Exchange> {
        match sequence {
            None => self.tensor_parallel_training(tokens),
            Some(inputs) => self.sequence_parallel_training(tokens, inputs),
        }
    }

    fn tensor_parallel_training(&self, tokens: Tokens) -> Vec<Exchange> {
        let (layers, hidden) = (self.layout.config().layers as u64, self.hidden(tokens));
        let mut exchanges = self.forward(tokens);
        exchanges.extend(self.loss(tokens));
        exchanges.extend([
            self.all_reduce("head, input gradient", hidden, 1),
            self.all_reduce("feed-forward, backward", hidden, layers),
            self.all_reduce("attention, backward", hidden, layers),
        ]);
        exchanges
    }

    fn sequence_parallel_training(&self, tokens: Tokens, inputs: Inputs) -> Vec<Exchange> {
        let layers = self.layout.config().layers as u64;
        let slices: Vec<_> = chunks(tokens.seq, self.layout.tp())
            .into_iter()
            .map(|slice| self.hidden(Tokens { rows: tokens.rows, seq: slice.len() }))
            .collect();
        let gather = |what, calls| self.all_gather(what, &slices, calls);
        let scatter = |what, calls| self.reduce_scatter(what, &slices, calls);
        let mut exchanges = vec![scatter("embedding", 1)];
        exchanges.extend(["attention, forward", "feed-forward, forward"].map(|what| gather(what, layers)));
        exchanges.extend(["attention, forward", "feed-forward, forward"].map(|what| scatter(what, layers)));
        exchanges.push(gather("head", 1));
        exchanges.extend(self.loss(tokens));
        exchanges.push(scatter("head, input gradient", 1));
        exchanges.extend(["feed-forward, backward", "attention, backward"].map(|what| gather(what, layers)));
        exchanges.extend(["feed-forward, backward", "attention, backward"].map(|what| scatter(what, layers)));
        if inputs == Inputs::Regathered {
            exchanges.push(gather("inputs, once more", 2 * layers));
        }
        exchanges.push(gather("embedding, gradient", 1));
        exchanges
    }

    /// Three numbers per token.
    fn loss(&self, tokens: Tokens) -> [Exchange; 3] {
        let width = self.element.max(size_of::<f32>());
        ["loss: largest logit", "loss: sum of exponentials", "loss: the target's logit"]
            .map(|what| self.all_reduce_of(what, &self.place, tokens.rows * tokens.seq, width, 1))
    }

    /// Once per step: gradients of weights that ranks used on different data.
    pub fn synchronisation(&self, sequence_parallel: bool) -> Vec<Exchange> {
        let width = self.element.max(size_of::<f32>());
        let elements = |summed| -> usize {
            let weights = self.layout.weights();
            let wanted = weights.filter(|weight| (self.summed)(&self.layout, weight.role, sequence_parallel) == summed);
            wanted.map(|weight| self.layout.elements(weight, self.place.rank())).sum()
        };
        let groups = [
            (Summed::Replicas, "gradients of shared key heads", &self.replica),
            (Summed::Everywhere, "gradients of norms and late biases", &self.place),
        ];
        let exchange = |(summed, what, place)| {
            let elements = elements(summed);
            (elements > 0).then(|| self.all_reduce_of(what, place, elements, width, 1))
        };
        groups.into_iter().filter_map(exchange).collect()
    }

    /// The global norm: one number.
    pub fn norm(&self) -> Vec<Exchange> {
        vec![self.all_reduce_of("global norm", &self.place, 1, size_of::<f64>(), 1)]
    }

    /// Gathering all weights or gradients to full tensors, of `width` bytes per element.
    pub fn gathering(&self, width: usize) -> Vec<Exchange> {
        self.layout.weights().flat_map(|weight| self.gathering_of(&weight.name, width)).collect()
    }

    /// Gathering the weight of this name, or its gradient; none if every rank has all of it.
    pub fn gathering_of(&self, name: &str, width: usize) -> Vec<Exchange> {
        let layout = &self.layout;
        let Some(weight) = layout.weight(name).filter(|weight| layout.held(weight.role) != Held::Replicated) else {
            return Vec::new();
        };
        let parts: Vec<_> = (0..layout.tp()).map(|rank| layout.elements(weight, rank)).collect();
        vec![self.all_gather_of("full tensors", &parts, width, 1)]
    }

    fn hidden(&self, tokens: Tokens) -> usize {
        tokens.rows * tokens.seq * self.layout.config().hidden
    }

    fn all_reduce(&self, what: &'static str, elements: usize, calls: u64) -> Exchange {
        self.all_reduce_of(what, &self.place, elements, self.element, calls)
    }

    fn all_reduce_of(&self, what: &'static str, place: &Place, elements: usize, width: usize, calls: u64) -> Exchange {
        let sent = volume::all_reduce(self.algorithm, place, elements, width);
        exchange(what, Operation::AllReduce, elements * width, sent, calls)
    }

    fn all_gather(&self, what: &'static str, parts: &[usize], calls: u64) -> Exchange {
        self.all_gather_of(what, parts, self.element, calls)
    }

    fn all_gather_of(&self, what: &'static str, parts: &[usize], width: usize, calls: u64) -> Exchange {
        let sent = volume::all_gather(self.algorithm, &self.place, parts, width);
        exchange(what, Operation::AllGather, parts[self.place.rank()] * width, sent, calls)
    }

    fn reduce_scatter(&self, what: &'static str, parts: &[usize], calls: u64) -> Exchange {
        let sent = volume::reduce_scatter(self.algorithm, &self.place, parts, self.element);
        exchange(what, Operation::ReduceScatter, parts.iter().sum::<usize>() * self.element, sent, calls)
    }
}

fn exchange(what: &'static str, operation: Operation, payload: usize, sent: Sent, calls: u64) -> Exchange {
    Exchange { what, operation, volume: Volume { calls: 1, payload: payload as u64, sent }.times(calls) }
}

/// What a rank at `place` sends around the ring of context parallelism in one forward: keys and values of `sequences` sequences, two rows
/// each, in every layer to every other rank. `seq[rank]` is how many tokens a row of that rank has, padding included.
pub fn ring(place: &Place, config: &Config, sequences: usize, seq: &[usize], element: usize) -> Volume {
    let passed = |step| around(place, config, sequences, seq, element, step);
    (0..place.size() - 1).map(passed).sum::<Volume>().times(config.layers as u64)
}

/// The same in one backward: keys and values once more, and their gradients a full round.
pub fn ring_backward(place: &Place, config: &Config, sequences: usize, seq: &[usize], element: usize) -> Volume {
    let passed = |step| around(place, config, sequences, seq, element, step);
    let gradients = (0..place.size()).map(passed).sum::<Volume>().times(config.layers as u64);
    ring(place, config, sequences, seq, element) + gradients
}

/// Keys and values of one rank, passed on in `step`.
fn around(place: &Place, config: &Config, sequences: usize, seq: &[usize], element: usize, step: usize) -> Volume {
    let (rank, size) = (place.rank(), place.size());
    let elements = 2 * 2 * sequences * seq[(rank + size - step) % size] * config.kv_width();
    let sent = volume::send(place, (rank + 1) % size, elements, element);
    Volume { calls: 1, payload: (elements * element) as u64, sent }
}

/// What was counted of an operation: to be compared with [`of_operation`].
pub fn counted(traffic: &Traffic, operation: Operation) -> Volume {
    let (calls, payload, sent) = traffic.of(operation);
    Volume { calls, payload, sent }
}
