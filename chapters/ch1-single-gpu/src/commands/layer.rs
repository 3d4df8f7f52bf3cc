//! `cargo ch1 layer`: every operation of one decoder layer, predicted and observed, and where the layer may be cut.

use crate::anatomy::{Passage, Plan};
use anyhow::Context as _;
use clap::Args;
use decoder::split::Split;
use lab::flags::{DeviceFlags, ModelFlags};
use lab::loaded::Described;
use lab::program::{Output, in_pool, write_json};
use std::io::Write;

/// What `cargo ch1 layer` takes.
#[derive(Args, Debug)]
pub(super) struct LayerCommand {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    device: DeviceFlags,
    /// Which layer, counted from 0
    #[arg(long, value_name = "LAYER", default_value_t = 0)]
    layer: usize,
    /// Tokens of each prompt
    #[arg(long, value_name = "TOKENS", default_value_t = 32)]
    prompt_len: usize,
    /// Sequences side by side
    #[arg(long, value_name = "SEQUENCES", default_value_t = 1)]
    batch: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const LEGEND: &str = "\
✓ the formula gives the same number: 2·rows·inputs·outputs FLOP for x·Wᵀ, 4·heads·head_dim FLOP for each query and key
  that it sees, operands and result once each in bytes. Element-wise operations are in no formula.";

impl LayerCommand {
    pub(super) fn run(self, out: &mut Output) -> anyhow::Result<()> {
        let described = Described::from_flags(&self.model, &self.device)?;
        let plan = Plan::new(&described.config, self.layer, self.prompt_len, self.batch)?;
        let model = described.load(&Split::whole()).context("loading the model")?;
        let [prefill, decode] = in_pool(lab::startup::threads()?, || plan.run(&model, described.dtype))??;
        if self.json {
            let document = serde_json::json!({
                "model": described.source.origin(), "layer": self.layer, "prefill": prefill, "decode": decode,
            });
            return write_json(out, &document);
        }
        writeln!(out, "{}\n", plan.figure(&prefill))?;
        show(out, "Prefill", &plan, &prefill)?;
        show(out, "Decode step", &plan, &decode)?;
        writeln!(out, "{LEGEND}")?;
        Ok(())
    }
}

fn show(out: &mut Output, name: &str, plan: &Plan, passage: &Passage) -> anyhow::Result<()> {
    writeln!(out, "{name}: {}\n\n{}\n", passage.describe(), plan.table(passage))?;
    writeln!(out, "{}\n", passage.totals())?;
    Ok(())
}
