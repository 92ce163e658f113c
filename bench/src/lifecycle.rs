//! Loading, attaching, detaching, and the memory of a trace: idle, and under full load.

use crate::figures::{Figures, Limit};
use crate::workload::Workload;
use anyhow::Result;
use gpuwhy_agent::{Agent, CommandOutput, Config, Update};
use gpuwhy_probes::{Engine, Settings};
use std::ffi::OsString;
use std::time::{Duration, Instant};

pub(crate) fn measure(workload: &Workload, figures: &mut Figures) -> Result<()> {
    let began = Instant::now();
    let mut engine = Engine::load(&Settings::default())?;
    figures.add("load all probes", ms(began), "ms");
    let libraries = workload.libraries()?;
    let began = Instant::now();
    for file in &libraries {
        engine.attach_library(file);
    }
    let functions = engine.statuses().len();
    figures.add_with_note(
        "attach",
        ms(began),
        "ms",
        format!("{functions} functions of {} libraries", libraries.len()),
    );
    let began = Instant::now();
    engine.detach()?;
    figures.add_limited("detach all", ms(began), "ms", Limit::AtMost(1000.0));
    drop(engine);

    figures.add_limited(
        "memory of gpuwhy tracing an idle host",
        rss_mb(workload, None)?,
        "MB",
        Limit::AtMost(60.0),
    );
    let load = ["launch", "--threads", "4", "--launches", "0", "--via", "driver"];
    figures.add_limited(
        "memory of gpuwhy under full load",
        rss_mb(workload, Some(&load))?,
        "MB",
        Limit::AtMost(120.0),
    );
    Ok(())
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The most memory seen over some seconds, in a process of its own: this one has measured other things before.
fn rss_mb(workload: &Workload, load: Option<&[&str]>) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::new(folder.path().join("memory.db"));
    config.budget = None;
    config.duration = Some(Duration::from_secs(5));
    config.keep_all = load.is_some();
    let mut child = match load {
        Some(words) => Some(
            std::process::Command::new(workload.program())
                .args(words)
                .stdout(std::process::Stdio::null())
                .spawn()?,
        ),
        None => None,
    };
    config.command_output = CommandOutput::Discard;
    config.command = None::<Vec<OsString>>;
    let agent = Agent::spawn(config)?;
    let mut most = 0;
    for update in agent.updates() {
        match update {
            Update::Snapshot(snapshot) => most = most.max(snapshot.own.rss_bytes),
            Update::Ended(result) => {
                (*result)?;
            }
            _ => {}
        }
    }
    if let Some(child) = &mut child {
        child.kill()?;
        child.wait()?;
    }
    Ok(most as f64 / 1e6)
}
