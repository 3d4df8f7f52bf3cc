//! What a message takes: a [`Link`] per tier, and the [`Topology`] that says which tier lies between two ranks.

use crate::{Error, Result};

/// A connection between two ranks, one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Its name, for messages and legends.
    pub name: &'static str,
    /// Seconds from the last byte's departure to its arrival.
    pub latency: f64,
    /// Bytes per second.
    pub bandwidth: f64,
}

/// When a message passes a link. Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// It begins to leave.
    pub start: f64,
    /// It has left: the link is free again.
    pub free: f64,
    /// It is there.
    pub arrival: f64,
}

impl Link {
    /// NVLink 4: 900 GB/s per H100 in both directions together (NVIDIA H100 data sheet), so half of it one way.
    /// Latency: NCCL's tuning table, one hop of a ring over NVLink, protocol Simple.
    pub const NVLINK: Self = Self { name: "NVLink", latency: 3.4e-6, bandwidth: 450e9 };
    /// PCI Express 5.0 ×16: 32 GT/s per lane, 128b/130b coded (PCI-SIG). Latency: the same table, PCI.
    pub const PCIE: Self = Self { name: "PCIe", latency: 5.7e-6, bandwidth: 63e9 };
    /// InfiniBand NDR: 400 Gb/s per port (NVIDIA ConnectX-7 data sheet). Latency: the same table, network.
    pub const INFINIBAND: Self = Self { name: "InfiniBand", latency: 14e-6, bandwidth: 50e9 };
    /// 10 Gigabit Ethernet: 10 Gb/s (IEEE 802.3ae). Latency: the same table, network; TCP on a loaded host takes
    /// longer.
    pub const ETHERNET: Self = Self { name: "Ethernet", latency: 14e-6, bandwidth: 1.25e9 };

    /// The presets.
    pub const PRESETS: [Self; 4] = [Self::NVLINK, Self::PCIE, Self::INFINIBAND, Self::ETHERNET];

    /// The preset called `name`, in any case.
    ///
    /// # Errors
    /// No preset has that name.
    pub fn named(name: &str) -> Result<Self> {
        Self::PRESETS.into_iter().find(|link| link.name.eq_ignore_ascii_case(name)).ok_or_else(|| Error::Setting {
            name: "link",
            found: name.to_owned(),
            expected: format!("one of {}", Self::PRESETS.map(|link| link.name.to_lowercase()).join(", ")),
        })
    }

    /// A message of `bytes` that is issued at `issue`, on a link that is free from `free` on. The one rule for every
    /// timeline, of runs and of simulations.
    pub fn pass(&self, issue: f64, free: f64, bytes: u64) -> Passage {
        let start = issue.max(free);
        let free = start + bytes as f64 / self.bandwidth;
        Passage { start, free, arrival: free + self.latency }
    }
}

/// Which link lies between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Both are on one node.
    Within,
    /// They are on two nodes.
    Between,
}

/// Nodes of equally many ranks (the last may have fewer), and the links of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Topology {
    /// World ranks 0 to this − 1 are on the first node, and so on.
    pub ranks_per_node: usize,
    /// Between ranks of one node.
    pub within: Link,
    /// Between nodes.
    pub between: Link,
}

impl Default for Topology {
    /// Nodes of eight GPUs with NVLink, joined by InfiniBand.
    fn default() -> Self {
        Self { ranks_per_node: 8, within: Link::NVLINK, between: Link::INFINIBAND }
    }
}

impl Topology {
    /// The node of a world rank.
    pub fn node(&self, rank: usize) -> usize {
        rank / self.ranks_per_node.max(1)
    }

    /// The tier between two nodes.
    pub fn tier(from: usize, to: usize) -> Tier {
        if from == to { Tier::Within } else { Tier::Between }
    }

    /// The link of a tier.
    pub fn link(&self, tier: Tier) -> Link {
        match tier {
            Tier::Within => self.within,
            Tier::Between => self.between,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong =
            |name, found: String, expected: &str| Err(Error::Setting { name, found, expected: expected.to_owned() });
        if self.ranks_per_node == 0 {
            return wrong("ranks per node", "0".to_owned(), "at least 1");
        }
        for link in [self.within, self.between] {
            if !(link.bandwidth.is_finite() && link.bandwidth > 0.0) {
                return wrong("bandwidth", link.bandwidth.to_string(), "bytes per second, above 0");
            }
            if !(link.latency.is_finite() && link.latency >= 0.0) {
                return wrong("latency", link.latency.to_string(), "seconds, 0 or more");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn two_messages_share_a_link_and_latency_is_paid_by_each() {
        let link = Link { name: "test", latency: 0.5, bandwidth: 100.0 };
        let first = link.pass(1.0, 0.0, 200);
        assert_eq!((first.start, first.free, first.arrival), (1.0, 3.0, 3.5));
        let second = link.pass(2.0, first.free, 100);
        assert_eq!((second.start, second.free, second.arrival), (3.0, 4.0, 4.5));
        assert_eq!(link.pass(9.0, second.free, 0).arrival, 9.5, "an empty message costs its latency");
    }

    #[test]
    fn presets_are_found_by_name_and_an_unknown_name_lists_them() {
        assert_eq!(Link::named("nvlink").unwrap(), Link::NVLINK);
        let message = Link::named("token ring").unwrap_err().to_string();
        assert!(message.contains("infiniband"), "{message}");
    }
}
