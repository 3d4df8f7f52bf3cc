//! What the ranks run on: `--algorithm`, `--link`, `--clock`, `--gpu`; and `--inject-failure`, to see one of them fail.

use super::MemoryFlags;
use crate::{Error, Result};
use candle_core::DType;
use clap::{Args, ValueEnum};
use collective::{Algorithm, ClockKind, Link, Options, Roofline, Topology};
use decoder::shape::hardware::{Hardware, Precision};
use std::fmt;
use std::str::FromStr;

/// The cluster that the ranks stand for.
#[derive(Args, Clone, Debug)]
pub struct ClusterFlags {
    /// How collective operations are done: direct, ring, tree, hierarchical
    #[arg(long, value_name = "ALGORITHM", default_value_t = Algorithm::Ring)]
    pub algorithm: Algorithm,
    /// What counts as time
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = ClockChoice::Roofline)]
    pub clock: ClockChoice,
    /// The device that the roofline clock computes on
    #[arg(long, value_name = "GPU", default_value = "H100")]
    pub gpu: String,
    /// The fraction of the device's peak and bandwidth that the roofline clock lets a program reach
    #[arg(long, value_name = "FRACTION", default_value_t = 0.5)]
    pub efficiency: f64,
    /// Link between ranks of one node: nvlink, pcie, infiniband, ethernet
    #[arg(long, value_name = "LINK", default_value = "nvlink")]
    pub link: String,
    /// Link between nodes
    #[arg(long, value_name = "LINK", default_value = "infiniband")]
    pub between: String,
    /// Ranks of a node
    #[arg(long, value_name = "RANKS", default_value_t = 8)]
    pub ranks_per_node: usize,
}

/// What `--clock` can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockChoice {
    /// What the work would take on --gpu, over --link
    Roofline,
    /// CPU time of each rank's thread, with messages over --link
    Cpu,
    /// Real time
    Wall,
}

impl ClusterFlags {
    /// How to launch ranks that compute on operands of type `dtype`.
    ///
    /// # Errors
    /// An unknown GPU or link, or a GPU without a published peak for the type.
    pub fn options(&self, dtype: DType, memory: &MemoryFlags) -> Result<Options> {
        Ok(Options {
            algorithm: self.algorithm,
            topology: self.topology()?,
            clock: self.clock(dtype)?,
            device_memory: memory.device_memory()?,
            ..Options::default()
        })
    }

    /// Nodes and links.
    ///
    /// # Errors
    /// There is no such link.
    pub fn topology(&self) -> Result<Topology> {
        let link = |flag, name: &str| {
            Link::named(name).map_err(|error| match error {
                collective::Error::Setting { found, expected, .. } => Error::Flag { flag, found, expected },
                error => error.into(),
            })
        };
        let (within, between) = (link("--link", &self.link)?, link("--between", &self.between)?);
        Ok(Topology { ranks_per_node: self.ranks_per_node, within, between })
    }

    fn clock(&self, dtype: DType) -> Result<ClockKind> {
        Ok(match self.clock {
            ClockChoice::Wall => ClockKind::Wall,
            ClockChoice::Cpu => ClockKind::Cpu,
            ClockChoice::Roofline => {
                let device = Hardware::named(&self.gpu)?;
                let peak = device.peak(precision(dtype)?)? as f64;
                let bandwidth = device.bandwidth.get() as f64;
                ClockKind::Roofline(Roofline { peak, bandwidth, efficiency: self.efficiency })
            }
        })
    }

    /// The clock in words: `H100 at 50 % of its roofline`.
    pub fn clock_text(&self) -> String {
        match self.clock {
            ClockChoice::Wall => "real time of this machine".to_owned(),
            ClockChoice::Cpu => "CPU time of this machine".to_owned(),
            ClockChoice::Roofline => {
                format!("{} at {} of its roofline", self.gpu, crate::numbers::percent(self.efficiency))
            }
        }
    }
}

/// As makers of GPUs call a type.
fn precision(dtype: DType) -> Result<Precision> {
    match dtype {
        DType::F64 => Ok(Precision::F64),
        DType::F32 => Ok(Precision::F32),
        DType::BF16 => Ok(Precision::Bf16),
        DType::F16 => Ok(Precision::F16),
        other => Err(decoder::Error::Setting {
            name: "--dtype",
            found: other.as_str().to_owned(),
            expected: "f64, f32, bf16 or f16: the roofline clock knows the peaks of these".to_owned(),
        }
        .into()),
    }
}

/// Which rank fails in which step, on purpose.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FailureFlags {
    /// Let this rank fail in this step (both from 0), to see what a failure looks like
    #[arg(long, value_name = "RANK:STEP")]
    pub inject_failure: Option<InjectedFailure>,
}

/// A failure on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFailure {
    /// The rank that fails.
    pub rank: usize,
    /// In this step.
    pub step: u64,
}

impl FailureFlags {
    /// The failure, of one of `ranks` ranks in one of `steps` steps.
    ///
    /// # Errors
    /// There is no such rank, or no such step: it would never strike.
    pub fn of(&self, ranks: usize, steps: u64) -> Result<Option<InjectedFailure>> {
        let Some(failure) = self.inject_failure else { return Ok(None) };
        let expected = if failure.rank >= ranks {
            format!("a rank from 0 to {}", ranks.saturating_sub(1))
        } else if failure.step >= steps {
            format!("a step from 0 to {}", steps.saturating_sub(1))
        } else {
            return Ok(Some(failure));
        };
        Err(Error::Flag { flag: "--inject-failure", found: failure.to_string(), expected })
    }
}

impl InjectedFailure {
    /// Fails if it is this rank's turn.
    ///
    /// # Errors
    /// It is.
    pub fn strike(failure: Option<Self>, rank: usize, step: u64) -> Result<()> {
        match failure {
            Some(failure) if (failure.rank, failure.step) == (rank, step) => Err(Error::Injected { rank, step }),
            _ => Ok(()),
        }
    }
}

impl FromStr for InjectedFailure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(rank, step)| Some((rank.parse().ok()?, step.parse().ok()?)));
        let (rank, step) = parts.ok_or("RANK:STEP, two whole numbers from 0 up, such as 2:7")?;
        Ok(Self { rank, step })
    }
}

impl fmt::Display for InjectedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rank, self.step)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        cluster: ClusterFlags,
        #[command(flatten)]
        failure: FailureFlags,
    }

    fn parse(line: &str) -> Result<Program, String> {
        let words = std::iter::once("chapter").chain(line.split_whitespace());
        Program::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn a_cluster_is_its_links_its_gpu_and_its_clock() {
        let flags =
            parse("--link pcie --between ethernet --ranks-per-node 4 --gpu a100 --efficiency 0.25 --algorithm tree");
        let options = flags.unwrap().cluster.options(DType::BF16, &MemoryFlags::default()).unwrap();
        assert_eq!(options.topology, Topology { ranks_per_node: 4, within: Link::PCIE, between: Link::ETHERNET });
        assert_eq!(options.algorithm, Algorithm::Tree);
        let ClockKind::Roofline(roofline) = options.clock else { panic!("{:?}", options.clock) };
        assert_eq!((roofline.peak, roofline.efficiency), (312e12, 0.25), "312 TFLOP/s: NVIDIA's data sheet");
    }

    #[test]
    fn what_a_cluster_does_not_have_is_named_with_what_there_is() {
        let refusal =
            |line: &str| parse(line).unwrap().cluster.options(DType::F32, &MemoryFlags::default()).unwrap_err();
        assert!(refusal("--link token-ring").to_string().contains("--link token-ring: one of nvlink"));
        assert!(refusal("--between x").to_string().contains("--between x"));
        assert!(refusal("--gpu h1000").to_string().contains("h1000"));
        assert!(parse("--algorithm star").unwrap_err().contains("hierarchical"));
    }

    #[test]
    fn a_failure_strikes_one_rank_in_one_step_and_there_must_be_both() {
        let failure = parse("--inject-failure 2:7").unwrap().failure;
        let found = failure.of(3, 8).unwrap();
        assert!(InjectedFailure::strike(found, 2, 7).unwrap_err().to_string().contains("step 7 fails"));
        for (rank, step) in [(1, 7), (2, 6)] {
            InjectedFailure::strike(found, rank, step).unwrap();
        }
        assert!(failure.of(2, 8).unwrap_err().to_string().contains("a rank from 0 to 1"));
        assert!(failure.of(3, 7).unwrap_err().to_string().contains("a step from 0 to 6"));
        for wrong in ["2", "2:", ":7", "a:b", "-1:2"] {
            assert!(parse(&format!("--inject-failure={wrong}")).unwrap_err().contains("RANK:STEP"), "{wrong}");
        }
    }
}
