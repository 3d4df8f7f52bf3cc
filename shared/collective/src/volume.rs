//! Predicted volumes: the bytes that one rank sends, from the algorithm and the sizes alone.
//!
//! The tests demand that they **equal** what [`Traffic`](crate::Traffic) counted. With S bytes on p ranks:
//!
//! | operation | `ring` | `tree` |
//! |---|---|---|
//! | all-reduce | 2S minus two chunks (2S(p−1)/p where p divides) | S up, and S down to each child |
//! | all-gather of S in all | S minus the next rank's part | as ring |
//! | reduce-scatter | S minus the own part | as ring |
//! | broadcast | S, the last rank of the chain 0 | S to each child |
//! | all-to-all | the operand minus the own part | as ring |
//!
//! `direct` sends nothing over links: it reads the other ranks' memory.

use crate::{Algorithm, Sent, Topology, chunk};

/// The place of a rank in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    rank: usize,
    /// The node of each rank.
    nodes: Vec<usize>,
}

impl Place {
    /// Rank `rank` of `size` ranks on one node.
    pub fn flat(rank: usize, size: usize) -> Self {
        Self { rank, nodes: vec![0; size] }
    }

    /// Rank `rank` of the group `members` (world ranks) in `topology`.
    pub fn of(rank: usize, members: &[usize], topology: &Topology) -> Self {
        Self { rank, nodes: members.iter().map(|&member| topology.node(member)).collect() }
    }

    /// Ranks of the group.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The own rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    fn next(&self) -> usize {
        (self.rank + 1) % self.size().max(1)
    }

    /// `bytes` to rank `to`; none to oneself.
    fn send(&self, to: usize, bytes: usize) -> Sent {
        if to == self.rank {
            return Sent::default();
        }
        Sent::over(Topology::tier(self.nodes[self.rank], self.nodes[to]), bytes as u64)
    }
}

/// Parent and children in a binomial tree over `size` ranks whose root is 0. The subtree of `rank` is `rank..rank +
/// 2^k`, where 2^k is the lowest bit of `rank`; children are in ascending order.
pub fn binomial(rank: usize, size: usize) -> (Option<usize>, Vec<usize>) {
    let lowest = if rank == 0 { size.next_power_of_two() } else { 1 << rank.trailing_zeros() };
    let steps = std::iter::successors(Some(1), |step| Some(step * 2)).take_while(|&step| step < lowest);
    let children = steps.map(|step| rank + step).filter(|&child| child < size).collect();
    ((rank != 0).then(|| rank - lowest), children)
}

/// The ranks of each node, in order of rank; nodes in the order of their first rank.
pub(crate) fn by_node(nodes: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for (rank, &node) in nodes.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| *known == node) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((node, vec![rank])),
        }
    }
    groups.into_iter().map(|(_, ranks)| ranks).collect()
}

/// Where a rank stands in a hierarchy: its node's ranks, its index there, the index of its node, and the number of
/// ranks per node that own a chunk (that of the smallest node).
pub(crate) struct Local {
    pub(crate) node: Vec<usize>,
    pub(crate) index: usize,
    pub(crate) node_index: usize,
    pub(crate) owners: usize,
    pub(crate) nodes: Vec<Vec<usize>>,
}

impl Local {
    pub(crate) fn of(place: &Place) -> Self {
        let nodes = by_node(&place.nodes);
        let owners = nodes.iter().map(Vec::len).min().unwrap_or(1);
        let node_index = nodes.iter().position(|ranks| ranks.contains(&place.rank)).unwrap_or(0);
        let node = nodes.get(node_index).cloned().unwrap_or_default();
        let index = node.iter().position(|&rank| rank == place.rank).unwrap_or(0);
        Self { node, index, node_index, owners, nodes }
    }

    /// The ranks that own the same chunk, one per node; `None` if this rank owns none.
    pub(crate) fn peers(&self) -> Option<Vec<usize>> {
        (self.index < self.owners).then(|| self.nodes.iter().map(|ranks| ranks[self.index]).collect())
    }
}

/// All-reduce of `elements` elements of `width` bytes.
pub fn all_reduce(algorithm: Algorithm, place: &Place, elements: usize, width: usize) -> Sent {
    let (rank, size, bytes) = (place.rank, place.size(), elements * width);
    match algorithm {
        Algorithm::Direct => Sent::default(),
        Algorithm::Ring => {
            let not_sent = [rank, place.next()].map(|index| chunk(elements, size, index).len() * width);
            place.send(place.next(), 2 * bytes - not_sent[0] - not_sent[1])
        }
        Algorithm::Tree => {
            let (parent, children) = binomial(rank, size);
            parent.into_iter().chain(children).map(|peer| place.send(peer, bytes)).sum()
        }
        Algorithm::Hierarchical => hierarchical_all_reduce(place, elements, width),
    }
}

/// Inside of a node each rank gives chunk j to owner j; owners of one chunk go around the ring of nodes; owners give it
/// back.
fn hierarchical_all_reduce(place: &Place, elements: usize, width: usize) -> Sent {
    let local = Local::of(place);
    let bytes = |index| chunk(elements, local.owners, index).len() * width;
    let mut sent: Sent = (0..local.owners).map(|owner| place.send(local.node[owner], bytes(owner))).sum();
    if let Some(peers) = local.peers() {
        let ring = Place { rank: local.node_index, nodes: peers.iter().map(|&peer| place.nodes[peer]).collect() };
        sent += all_reduce(Algorithm::Ring, &ring, chunk(elements, local.owners, local.index).len(), width);
        sent += local.node.iter().map(|&peer| place.send(peer, bytes(local.index))).sum();
    }
    sent
}

/// All-gather of parts of `elements[rank]` elements each.
pub fn all_gather(algorithm: Algorithm, place: &Place, elements: &[usize], width: usize) -> Sent {
    scattered(algorithm, place, elements, width, place.next())
}

/// Reduce-scatter, after which rank r has `elements[r]` elements.
pub fn reduce_scatter(algorithm: Algorithm, place: &Place, elements: &[usize], width: usize) -> Sent {
    scattered(algorithm, place, elements, width, place.rank)
}

fn scattered(algorithm: Algorithm, place: &Place, elements: &[usize], width: usize, not_sent: usize) -> Sent {
    if algorithm == Algorithm::Direct {
        return Sent::default();
    }
    let total: usize = elements.iter().sum();
    place.send(place.next(), (total - elements.get(not_sent).copied().unwrap_or(0)) * width)
}

/// Broadcast of `elements` elements from `root`.
pub fn broadcast(algorithm: Algorithm, place: &Place, root: usize, elements: usize, width: usize) -> Sent {
    let (size, bytes) = (place.size(), elements * width);
    let distance = (place.rank + size - root) % size;
    match algorithm {
        Algorithm::Direct => Sent::default(),
        Algorithm::Ring if distance + 1 == size => Sent::default(),
        Algorithm::Ring => place.send(place.next(), bytes),
        Algorithm::Tree => {
            binomial(distance, size).1.into_iter().map(|child| place.send((child + root) % size, bytes)).sum()
        }
        Algorithm::Hierarchical => {
            broadcast_children(place, root).into_iter().map(|child| place.send(child, bytes)).sum()
        }
    }
}

/// To whom `place` passes a hierarchical broadcast on: first to nodes, by a tree over one rank of each, then inside of
/// its own.
fn broadcast_children(place: &Place, root: usize) -> Vec<usize> {
    let mut children = Vec::new();
    for members in broadcast_levels(place, root) {
        if let Some(rank) = members.iter().position(|&member| member == place.rank) {
            children.extend(binomial(rank, members.len()).1.into_iter().map(|child| members[child]));
        }
    }
    children
}

/// The two trees of a hierarchical broadcast, as seen by `place`: one rank of each node, and the own node; the first of
/// each is its root.
pub(crate) fn broadcast_levels(place: &Place, root: usize) -> [Vec<usize>; 2] {
    let mut nodes = by_node(&place.nodes);
    for ranks in &mut nodes {
        // The root speaks for its node, the first rank for any other.
        if let Some(position) = ranks.iter().position(|&rank| rank == root) {
            ranks[..=position].rotate_right(1);
        }
    }
    let home = nodes.iter().position(|ranks| ranks.contains(&root)).unwrap_or(0);
    let own = nodes.iter().find(|ranks| ranks.contains(&place.rank)).cloned().unwrap_or_default();
    nodes.rotate_left(home);
    [nodes.iter().map(|ranks| ranks[0]).collect(), own]
}

/// All-to-all of parts of `elements[to]` elements each.
pub fn all_to_all(algorithm: Algorithm, place: &Place, elements: &[usize], width: usize) -> Sent {
    if algorithm == Algorithm::Direct {
        return Sent::default();
    }
    elements.iter().enumerate().map(|(to, &count)| place.send(to, count * width)).sum()
}

/// A message of `elements` elements to rank `to`, under every algorithm.
pub fn send(place: &Place, to: usize, elements: usize, width: usize) -> Sent {
    place.send(to, elements * width)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_ring_sends_the_textbooks_two_s_times_p_minus_one_over_p() {
        for size in [1, 2, 4, 8] {
            for rank in 0..size {
                let sent = all_reduce(Algorithm::Ring, &Place::flat(rank, size), 1024, 4);
                assert_eq!(sent, Sent { within: (2 * 4096 * (size - 1) / size) as u64, between: 0 });
            }
        }
        // 10 elements on 4 ranks: chunks of 3, 3, 2, 2; rank 1 does not send chunks 1 and 2.
        assert_eq!(all_reduce(Algorithm::Ring, &Place::flat(1, 4), 10, 4).total(), 4 * (20 - 3 - 2));
    }

    #[test]
    fn a_binomial_tree_reaches_every_rank_once() {
        for size in 1..40 {
            let mut parents = vec![None; size];
            for rank in 0..size {
                for child in binomial(rank, size).1 {
                    assert_eq!(parents[child].replace(rank), None, "rank {child} of {size} has two parents");
                    assert_eq!(binomial(child, size).0, Some(rank));
                }
            }
            assert!(parents[1..].iter().all(Option::is_some) && parents[0].is_none());
        }
    }

    #[test]
    fn a_hierarchy_sends_a_fraction_of_the_ring_between_nodes() {
        let topology = Topology { ranks_per_node: 4, ..Topology::default() };
        let members: Vec<_> = (0..8).collect();
        let sent = |algorithm| -> Sent {
            (0..8).map(|rank| all_reduce(algorithm, &Place::of(rank, &members, &topology), 1024, 4)).sum()
        };
        // Two nodes exchange the whole once in each direction: 2 · S in all, against two of eight links of the ring.
        assert_eq!(sent(Algorithm::Hierarchical).between, 2 * 4096);
        assert_eq!(sent(Algorithm::Ring).between, 2 * 2 * 4096 * 7 / 8);
    }
}
