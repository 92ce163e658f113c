//! How late a library is attached that a running program loads, and whether it is attached before its code runs where that
//! can be foreseen.

use crate::figures::{Figures, Limit, median};
use crate::workload::Workload;
use anyhow::{Context, Result};
use gpuwhy_agent::{Agent, Config, Update};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the program does before it loads its libraries.
const WORK_MS: &str = "500";

pub(crate) fn measure(workload: &Workload, rounds: usize, figures: &mut Figures) -> Result<()> {
    let mut late = Vec::new();
    let mut foreseen = 0;
    for _ in 0..rounds {
        late.push(round(workload, false)?.unwrap_or(0.0));
        foreseen += usize::from(round(workload, true)?.is_none());
    }
    let worst = late.iter().copied().fold(0.0, f64::max);
    figures.add_with_note(
        "libnccl attached after it was mapped, not foreseen",
        median(&mut late),
        "ms",
        format!("worst of {rounds}: {worst:.1} ms"),
    );
    figures.add_limited(
        "  attached before it was mapped, foreseen",
        foreseen as f64 / rounds as f64,
        "of rounds",
        Limit::AtLeast(1.0),
    );
    Ok(())
}

/// One program in one trace: how many milliseconds late its collective library was attached; nothing where it was not.
fn round(workload: &Workload, is_foreseen: bool) -> Result<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let libraries = folder.path().join("lib/python3.12/site-packages/nvidia/nccl/lib");
    std::fs::create_dir_all(&libraries)?;
    for file in gpuwhy_simgpu::FILES.iter().filter(|file| file.name.contains(".so")) {
        std::fs::copy(workload.path(file.name), libraries.join(file.name))?;
    }
    let agent = Agent::spawn(Config::new(folder.path().join("late.db")))?;
    let mut late_ms = None;
    let mut rank: Option<Child> = None;
    for update in agent.updates().iter() {
        match update {
            Update::Snapshot(_) => match &mut rank {
                None => rank = Some(start(workload, &libraries, is_foreseen.then_some(folder.path()))?),
                Some(rank) => {
                    if let Some(status) = rank.try_wait()? {
                        agent.stop();
                        anyhow::ensure!(status.success(), "the rank ended with {status}");
                    }
                }
            },
            Update::Attached(statuses) => {
                let late = statuses.iter().filter(|status| status.probe == "nccl");
                late_ms = late.filter_map(|status| lateness_ms(&status.reason)).next().or(late_ms);
            }
            Update::Ended(result) => {
                (*result)?;
            }
            _ => {}
        }
    }
    Ok(late_ms)
}

fn start(workload: &Workload, libraries: &Path, environment: Option<&Path>) -> Result<Child> {
    let mut command = Command::new(workload.path(gpuwhy_simgpu::RANK_PYTHON));
    command.args(["--rank", "0", "--nranks", "1", "--steps", "50", "--kernel-us", "100"]);
    command.args(["--load-late-ms", WORK_MS]).arg("--id-file").arg(libraries.join("id"));
    command.arg("--libraries").arg(libraries).env_remove("VIRTUAL_ENV");
    command.envs(environment.map(|path| ("VIRTUAL_ENV", path)));
    command.stdout(Stdio::null()).spawn().context("the rank could not be started")
}

/// `attached 12.3ms after process 7 mapped it`
fn lateness_ms(reason: &str) -> Option<f64> {
    let text = reason.strip_prefix("attached ")?.split(" after process ").next()?;
    let units = [("ns", 1e-6), ("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    units.iter().find_map(|(unit, ms)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ms))
}

#[cfg(test)]
mod tests {
    use super::lateness_ms;

    #[test]
    fn lateness_is_read_off_its_sentence() {
        let message = |text: &str| lateness_ms(&format!("attached {text} after process 7 mapped it"));
        assert_eq!((message("12.5ms"), message("2.00s"), message("x")), (Some(12.5), Some(2000.0), None));
        assert_eq!(lateness_ms("its first instructions must be single-stepped"), None);
    }
}
