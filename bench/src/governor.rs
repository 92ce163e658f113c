//! The worst case within a budget: launches that do nothing, as fast as a thread can, with stacks asked for. Traced and
//! untraced in turns.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::Result;
use gpuwhy_agent::{Agent, Config};
use gpuwhy_probes::StackMode;

const BUDGET: f64 = 0.01;
/// So that a round takes so long untraced.
const ROUND_S: f64 = 15.0;

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let launches = (ROUND_S * 1e9 / workload.launch_ns(20_000_000)?) as u64;
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let before = workload.launch_ns(launches)?;
        let traced = traced_ns(workload, launches)?;
        let after = workload.launch_ns(launches)?;
        ratios.push(2.0 * traced / (before + after));
    }
    figures.add_limited(
        "a loop of empty launches within a budget of 1%, over untraced",
        median(&mut ratios),
        "",
        Limit::AtMost(1.0 + 2.0 * BUDGET),
    );
    Ok(())
}

fn traced_ns(workload: &Workload, launches: u64) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::new(folder.path().join("budget.db"));
    config.budget = Some(BUDGET);
    config.stacks = StackMode::On;
    let agent = Agent::spawn(config)?;
    // Attached and calibrated.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let ns = workload.launch_ns(launches)?;
    agent.stop();
    agent.finish()?;
    Ok(ns)
}
