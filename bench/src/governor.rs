//! The worst case within a budget: launches that do nothing, as fast as a thread can, with stacks asked for. Machines are
//! noisier than the budget is large, so the thread launches through an unwatched copy of the driver in turns: what differs
//! between the two is what being watched costs, and in untraced runs it shows how well that can be told.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::Result;
use gpuwhy_agent::{Agent, Config};
use gpuwhy_probes::StackMode;

/// Budgets, and how long a loop runs: its first second is within the budget, too.
const CASES: [(f64, u64); 3] = [(0.01, 1), (0.01, 60), (0.03, 30)];

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let mut untraced = Vec::new();
    let mut traced = CASES.map(|_| Vec::new());
    for _ in 0..rounds {
        untraced.push(workload.beside(30)?.cost_pct());
        for ((budget, seconds), costs) in CASES.iter().zip(&mut traced) {
            costs.push(traced_pct(workload, *budget, *seconds)?);
        }
    }
    let floor = median(&mut untraced);
    figures.add("the same launches through a watched file and its copy, untraced, differ by", floor, "%");
    for ((budget, seconds), mut costs) in CASES.into_iter().zip(traced) {
        let percent = 100.0 * budget;
        figures.add_limited(
            format!("what a loop of empty launches pays in {seconds} s within a budget of {percent}%"),
            median(&mut costs) - floor,
            "%",
            Limit::AtMost(percent),
        );
    }
    Ok(())
}

fn traced_pct(workload: &Workload, budget: f64, seconds: u64) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::new(folder.path().join("budget.db"));
    config.budget = Some(budget);
    config.stacks = StackMode::On;
    let agent = Agent::spawn(config)?;
    // Attached and calibrated.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let beside = workload.beside(seconds)?;
    agent.stop();
    agent.finish()?;
    Ok(beside.cost_pct())
}
