//! Records through ring, decode, ledger and store: a flood of launches, every one kept in full.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::{Context, Result};
use gpuwhy_agent::{Agent, CommandOutput, Config, OwnMeter, Update};
use gpuwhy_probes::StackMode;
use std::ffi::OsString;
use std::time::Instant;

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let (mut cpu_us, mut rate, mut lost) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds {
        let folder = tempfile::tempdir()?;
        let mut config = Config::new(folder.path().join("flood.db"));
        config.budget = None;
        config.keep_all = true;
        config.stacks = StackMode::Off;
        config.command_output = CommandOutput::Discard;
        config.command = Some(
            [workload.program().as_os_str(), "launch".as_ref(), "--via".as_ref(), "driver".as_ref()]
                .iter()
                .map(OsString::from)
                .chain(["--launches", "400000", "--cpu", "0"].iter().map(OsString::from))
                .collect(),
        );
        let agent = Agent::spawn(config)?;
        // Loading the probes is a cost of its own, measured elsewhere.
        while !matches!(agent.updates().recv()?, Update::Started { .. } | Update::Ended(_)) {}
        let mut own = OwnMeter::default();
        let before = own.read().cpu_time;
        let began = Instant::now();
        let summary = agent.finish().context("the traced flood")?;
        let spent = own.read().cpu_time.saturating_sub(before);
        let kept = summary.last.tallies.kept();
        lost += summary.last.coverage.lost;
        cpu_us.push(spent.as_secs_f64() * 1e6 / kept.max(1) as f64);
        rate.push(kept as f64 / began.elapsed().as_secs_f64());
    }
    figures.add("records a second, ring to file (2 busy CPUs)", median(&mut rate), "records/s");
    figures.add_limited(
        "CPU of the agent a record, end to end",
        median(&mut cpu_us),
        "us",
        Limit::AtMost(2.0),
    );
    figures.add("records lost in the floods (counted, not silent)", lost as f64, "records");
    Ok(())
}
