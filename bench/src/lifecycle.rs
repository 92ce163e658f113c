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
    whole_traces(workload, figures)?;

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

/// How often a trace is begun and ended; other programs of the host only add, so the best of them counts.
const TRACES: usize = 5;

/// From the first word to the last, of a command that does nothing and of a program that runs already.
fn whole_traces(workload: &Workload, figures: &mut Figures) -> Result<()> {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..TRACES {
        let folder = tempfile::tempdir()?;
        let mut config = Config::new(folder.path().join("true.db"));
        config.command = Some(vec![OsString::from("true")]);
        config.command_output = CommandOutput::Discard;
        let began = Instant::now();
        Agent::spawn(config)?.finish()?;
        best[0] = best[0].min(ms(began));
        let mut child = std::process::Command::new(workload.program())
            .args(["launch", "--launches", "0", "--gap-us", "1000"])
            .stdout(std::process::Stdio::null())
            .spawn()?;
        let [attach, detach] = attach_and_detach(child.id())?;
        best[1] = best[1].min(attach);
        best[2] = best[2].min(detach);
        child.kill()?;
        child.wait()?;
    }
    let names = ["trace of `true`", "attach to a running program", "detach from it"];
    for (name, ms) in names.into_iter().zip(best) {
        figures.add_limited_with_note(name, ms, "ms", Limit::AtMost(300.0), format!(" best of {TRACES}"));
    }
    Ok(())
}

fn attach_and_detach(pid: u32) -> Result<[f64; 2]> {
    let folder = tempfile::tempdir()?;
    let mut config = Config::new(folder.path().join("attach.db"));
    config.pids = vec![pid];
    let mut began = Instant::now();
    let agent = Agent::spawn(config)?;
    let mut times = [0.0; 2];
    for update in agent.updates().iter() {
        match update {
            Update::Started { .. } => times[0] = ms(began),
            // Its calls are being counted.
            Update::Snapshot(_) if times[1] == 0.0 => {
                began = Instant::now();
                times[1] = f64::NAN;
                agent.stop();
            }
            Update::Ended(result) => {
                (*result)?;
                times[1] = ms(began);
            }
            _ => {}
        }
    }
    Ok(times)
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
    for update in agent.updates().iter() {
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
