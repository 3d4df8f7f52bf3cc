//! How results are shown (`--plot`, `--json`, `--predict`; `--trace` where there is a timeline) and what they may cost
//! (`--device-memory`).

use crate::{Error, Result, plot};
use clap::Args;
use ledger::{Bytes, Ledger};
use std::path::{Path, PathBuf};

/// How results are shown.
#[derive(Args, Clone, Debug, Default)]
pub struct OutputFlags {
    /// Draw the result into this file; .svg or .png
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write one JSON document on stdout and nothing else there
    #[arg(long)]
    pub json: bool,
    /// Ask for your own number before showing the result
    #[arg(long)]
    pub predict: bool,
}

impl OutputFlags {
    /// Where the plot goes. Checked before the run, so that an hour's work does not end in a wrong file name.
    ///
    /// # Errors
    /// A file name that is neither `.svg` nor `.png`.
    pub fn plot(&self) -> Result<Option<&Path>> {
        let Some(path) = self.plot.as_deref() else { return Ok(None) };
        plot::Format::of(path)?;
        Ok(Some(path))
    }
}

/// How a timeline is shown.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceFlags {
    /// Write the timeline into this file, as Chrome trace JSON (opens in ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What a run may hold.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct MemoryFlags {
    /// Give every rank a virtual device of this size: 64MiB, 1.5GiB, 80GB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub device_memory: Option<Bytes>,
}

impl MemoryFlags {
    /// The size of every rank's virtual device, in bytes.
    ///
    /// # Errors
    /// 0.
    pub fn device_memory(&self) -> Result<Option<u64>> {
        match self.device_memory {
            Some(Bytes(0)) => Err(Error::Flag {
                flag: "--device-memory",
                found: "0".to_owned(),
                expected: "a device without memory holds nothing; give a size such as 64MiB".to_owned(),
            }),
            size => Ok(size.map(|Bytes(bytes)| bytes)),
        }
    }

    /// Gives `ledger` the virtual device.
    ///
    /// # Errors
    /// A size of 0; a limit in a program that measures nothing.
    pub fn limit(&self, ledger: &Ledger) -> Result<()> {
        Ok(ledger.set_limit(self.device_memory()?)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use crate::flags::{
        DeviceChoice, DeviceFlags, MemoryFlags, ModelFlags, OutputFlags, RandomFlags, SamplingFlags, TraceFlags,
    };
    use candle_core::DType;
    use clap::Parser;

    /// A program with every group, as a chapter composes them.
    #[derive(Parser, Debug)]
    struct Program {
        #[command(flatten)]
        model: ModelFlags,
        #[command(flatten)]
        sampling: SamplingFlags,
        #[command(flatten)]
        device: DeviceFlags,
        #[command(flatten)]
        output: OutputFlags,
        #[command(flatten)]
        trace: TraceFlags,
        #[command(flatten)]
        random: RandomFlags,
        #[command(flatten)]
        memory: MemoryFlags,
    }

    fn parse(line: &str) -> Result<Program, String> {
        Program::try_parse_from(std::iter::once("chapter").chain(line.split_whitespace()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_groups_fit_together_and_give_checked_values() {
        let program = parse(
            "--model owner/name --prompt One --prompt -two- -n 5 --temperature 0.8 --top-p 0.9 --top-k 40 --seed 7 \
             --device cpu --dtype BF16 --plot out/a.PNG --trace out/a.json --json --random 3 --device-memory 1.5GiB",
        )
        .unwrap();
        assert_eq!(program.sampling.prompts(&["default"]).unwrap(), ["One", "-two-"]);
        assert_eq!(program.sampling.sample_len().unwrap(), 5);
        assert_eq!((program.sampling.temperature, program.sampling.top_k), (0.8, Some(40)));
        assert!(program.device.device().unwrap().is_cpu());
        assert_eq!(program.device.dtype(DType::F32), DType::BF16);
        assert_eq!(program.memory.device_memory().unwrap(), Some(3 << 29));
        assert_eq!(program.random.random, Some(3));
        assert!(program.trace.trace.is_some());
        assert!(program.output.plot().unwrap().is_some() && program.output.json && program.model.model.is_some());
        let defaults = parse("").unwrap();
        assert_eq!(defaults.device.device, DeviceChoice::Auto);
        assert_eq!(defaults.device.dtype(DType::F64), DType::F64);
        assert_eq!(defaults.sampling.prompts(&["default"]).unwrap(), ["default"]);
        assert_eq!((defaults.memory.device_memory().unwrap(), defaults.output.plot().unwrap()), (None, None));
        assert_eq!(parse("--device CUDA:3").unwrap().device.device, DeviceChoice::Cuda(3));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_the_parser_with_the_legal_values() {
        for (line, reason) in [
            ("--device tpu", "cuda:INDEX"),
            ("--device cuda:-1", "whole number"),
            ("--cpu --device cuda", "cannot be used with"),
            ("--dtype int8", "bf16"),
            ("--device-memory 64M", "MiB"),
            ("--device-memory -1MiB", "negative"),
            ("--sample-len -3", "unexpected argument"),
            ("--top-k x", "invalid"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(reason), "{line}: {message}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        let refuse = |line: &str, reason: &str, outcome: fn(Program) -> crate::Result<()>| {
            let message = outcome(parse(line).unwrap()).unwrap_err().to_string();
            assert!(message.contains(reason), "{line}: {message}");
        };
        refuse("--sample-len 0", "--sample-len 0", |program| program.sampling.sample_len().map(drop));
        refuse("--prompt=", "--prompt", |program| program.sampling.prompts(&[]).map(drop));
        refuse("--device-memory 0", "--device-memory 0", |program| program.memory.device_memory().map(drop));
        refuse("--plot a.pdf", ".svg", |program| program.output.plot().map(drop));
        // The tests of this crate have no counting allocator.
        refuse("--device-memory 1GiB", "CountingAllocator", |program| program.memory.limit(&ledger::Ledger::main()));
        if !candle_core::utils::cuda_is_available() {
            refuse("--device cuda", "--features cuda", |program| program.device.device().map(drop));
        }
    }
}
