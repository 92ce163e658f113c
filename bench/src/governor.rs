//! The worst case within a budget: launches that do nothing, as fast as a thread can, with stacks asked for. Machines are
//! noisier than the budget is large, so the thread launches through an unwatched copy of the driver in turns: what differs
//! between the two is what being watched costs, and in untraced runs it shows how well that can be told.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::Result;
use gpuwhy_agent::{Agent, Config};
use gpuwhy_probes::StackMode;

const BUDGET: f64 = 0.01;
const ROUND_S: u64 = 60;

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let (mut untraced, mut traced) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        untraced.push(workload.beside(ROUND_S / 2)?.cost_pct());
        traced.push(traced_pct(workload)?);
    }
    let floor = median(&mut untraced);
    figures.add("the same launches through a watched file and its copy, untraced, differ by", floor, "%");
    figures.add_limited(
        "what a loop of empty launches pays within a budget of 1%",
        median(&mut traced) - floor,
        "%",
        Limit::AtMost(100.0 * BUDGET),
    );
    Ok(())
}

fn traced_pct(workload: &Workload) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::new(folder.path().join("budget.db"));
    config.budget = Some(BUDGET);
    config.stacks = StackMode::On;
    let agent = Agent::spawn(config)?;
    // Attached and calibrated.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let beside = workload.beside(ROUND_S)?;
    agent.stop();
    agent.finish()?;
    Ok(beside.cost_pct())
}
