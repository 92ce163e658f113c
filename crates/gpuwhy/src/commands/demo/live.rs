//! A scenario traced live: the simulated GPU unpacked, the workload started under the agent, the fault beside it.

use super::scenario::Scenario;
use super::{Failed, Played};
use crate::failure::Failure;
use flate2::Compression;
use flate2::write::GzEncoder;
use gpuwhy_agent::{Agent, CommandOutput, Config, Update};
use gpuwhy_model::Recording;
use gpuwhy_store::Options;
use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn play(scenario: &Scenario, file: &Path, record: Option<&Path>) -> Result<Played, Failed> {
    let folder = tempfile::Builder::new()
        .prefix("gpuwhy-simgpu-")
        .tempdir()
        .map_err(|error| Failure::no_folder(&error))?;
    gpuwhy_simgpu::unpack(folder.path())?;
    let program = folder.path().join(gpuwhy_simgpu::WORKLOAD);
    let cpu = own_last_cpu().to_string();
    let arguments = |words: &[&str]| -> Vec<OsString> {
        words.iter().map(|word| OsString::from(word.replace("{cpu}", &cpu))).collect()
    };

    let mut config = Config::new(file.to_path_buf());
    let mut command = vec![OsString::from("env")];
    command
        .extend(scenario.environment.iter().map(|(name, value)| OsString::from(format!("{name}={value}"))));
    command.push(program.clone().into_os_string());
    command.extend(arguments(scenario.workload));
    config.command = Some(command);
    config.command_output = CommandOutput::Discard;
    config.store = Options { create_folders: true, ..Options::default() };
    config.flags = vec!["demo".into(), scenario.name.into()];
    config.record = record.is_some();

    let agent = Agent::spawn(config)?;
    let mut fault = Fault { child: None };
    let mut began: Option<Instant> = None;
    let mut flavour = "";
    let progress = Progress::new();
    let summary = loop {
        match agent.updates().recv_timeout(Duration::from_millis(100)) {
            Ok(Update::Started { flavour: name, .. }) => {
                flavour = name;
                began = Some(Instant::now());
            }
            Ok(Update::Ended(result)) => break result.map_err(Failed::from_agent)?,
            Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Failure::Failed("the trace ended without a word".into()).into());
            }
        }
        let Some(elapsed) = began.map(|began| began.elapsed()) else { continue };
        if elapsed >= scenario.fault_after && fault.child.is_none() {
            let mut command = Command::new(&program);
            command.args(arguments(scenario.fault)).stdout(Stdio::null()).stderr(Stdio::null());
            fault.child = Some(command.spawn()?);
        }
        progress.show(elapsed, fault.child.is_some());
    };
    progress.clear();
    drop(fault);

    if let (Some(path), Some(mut recording)) = (record, summary.recording.clone()) {
        let release = gpuwhy_host::kernel_release();
        let version = release.split('-').next().unwrap_or_default();
        recording.about = format!("a run on Linux {version}");
        write_recording(path, &recording)?;
    }
    let how = format!(
        "Traced live with real eBPF on this machine ({flavour} probes, Linux {}).",
        gpuwhy_host::kernel_release()
    );
    Ok(Played::from_summary(summary, how))
}

/// The process that does the harm; ended with the demo, however that ends.
struct Fault {
    child: Option<Child>,
}

impl Drop for Fault {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A line that is written over, on a terminal only.
struct Progress {
    on: bool,
}

impl Progress {
    fn new() -> Progress {
        Progress { on: std::io::stderr().is_terminal() }
    }

    fn show(&self, elapsed: Duration, fault: bool) {
        if self.on {
            let what = if fault { "the fault is in" } else { "all is well" };
            eprint!("\rtracing {:>2} s, {what} ...   ", elapsed.as_secs());
            // A lost progress line is no loss.
            let _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.on {
            eprint!("\r{:40}\r", "");
        }
    }
}

/// The last CPU this process may use: the least likely to have other work.
fn own_last_cpu() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    allowed
        .and_then(|set| (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| set.is_set(*cpu)))
        .unwrap_or(0)
}

fn write_recording(path: &Path, recording: &Recording) -> Result<(), Failed> {
    let mut encoder = GzEncoder::new(fs::File::create(path)?, Compression::best());
    serde_json::to_writer(&mut encoder, recording)?;
    encoder.finish()?;
    Ok(())
}
