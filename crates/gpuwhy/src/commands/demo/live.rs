//! A scenario traced live: the simulated GPU unpacked, the workloads started under the agent, the fault beside them.

use super::scenario::{Scenario, Workload};
use super::{Failed, Played, recording};
use crate::failure::Failure;
use gpuwhy_agent::{Agent, CommandOutput, Config, Update};
use gpuwhy_store::Options;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NVML: &str = "libnvidia-ml.so.1";

/// The stand-in for the GPU's management library works in this process and takes its settings from the environment, which
/// a program cannot change safely once it runs: so it is started again, with what the scenario needs.
pub(crate) fn enter(scenario: &Scenario) -> Result<(), Failure> {
    let is_set = |(name, value): &(&str, &str)| std::env::var(name).is_ok_and(|set| set == *value);
    if scenario.environment.iter().all(is_set) {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).envs(scenario.environment.iter().copied());
    Err(again.exec().into())
}

pub(crate) fn play(scenario: &Scenario, file: &Path, record: Option<&Path>) -> Result<Played, Failed> {
    let folder = tempfile::Builder::new()
        .prefix("gpuwhy-simgpu-")
        .tempdir()
        .map_err(|error| Failure::no_folder(&error))?;
    gpuwhy_simgpu::unpack(folder.path())?;
    let program = folder.path().join(gpuwhy_simgpu::WORKLOAD);
    let cpu = own_last_cpu().to_string();

    let mut config = Config::new(file.to_path_buf());
    // The simulated GPU takes launches faster than any real one, and a demonstration is over soon.
    config.budget = None;
    // The program comes before the script, so that its libraries are found before it starts.
    config.command = Some(vec![
        "env".into(),
        variable("SIMWORK", &program),
        variable("FOLDER", folder.path()),
        "sh".into(),
        "-c".into(),
        script(scenario.workloads, &cpu).into(),
    ]);
    config.command_output = CommandOutput::Discard;
    config.nvml = Some(folder.path().join(NVML));
    config.store = Options { create_folders: true, ..Options::default() };
    config.flags = vec!["demo".into(), scenario.name.into()];
    config.record = record.is_some();

    let agent = Agent::spawn(config)?;
    let mut harm = Harm { child: None };
    let mut began: Option<Instant> = None;
    let mut flavour = "";
    let progress = Progress::new();
    let mut summary = loop {
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
        if let Some(fault) = scenario.fault.as_ref().filter(|fault| elapsed >= fault.after)
            && harm.child.is_none()
        {
            let arguments = fault.arguments.replace("{cpu}", &cpu);
            let mut command = Command::new(&program);
            command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
            harm.child = Some(command.spawn()?);
        }
        progress.show(elapsed, scenario.fault.is_some().then_some(harm.child.is_some()));
    };
    progress.clear();

    if let (Some(path), Some(made)) = (record, summary.recording.take()) {
        let own: Vec<u32> = harm.child.iter().map(Child::id).chain([std::process::id()]).collect();
        recording::write(path, made, folder.path(), &own)?;
    }
    drop(harm);
    let how = format!(
        "Traced live with real eBPF on this machine ({flavour} probes, Linux {}).",
        gpuwhy_host::kernel_release()
    );
    Ok(Played::from_summary(summary, how))
}

fn variable(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(path);
    word
}

/// For a shell that knows the workload program and the folder: one process replaces it, several are waited for.
fn script(workloads: &[Workload], cpu: &str) -> String {
    let lines: Vec<String> = workloads
        .iter()
        .map(|workload| {
            let variables: String =
                workload.environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
            let arguments = workload.arguments.replace("{cpu}", cpu).replace("{folder}", "\"$FOLDER\"");
            let limit =
                workload.seconds.map_or_else(String::new, |seconds| format!("timeout -s KILL {seconds} "));
            format!("{variables}{limit}\"$SIMWORK\" {arguments}")
        })
        .collect();
    match lines.as_slice() {
        [one] => format!("exec {one}"),
        many => many.iter().map(|line| format!("{line} & ")).chain(["wait".into()]).collect(),
    }
}

/// The process that does the harm; ended with the demo, however that ends.
struct Harm {
    child: Option<Child>,
}

impl Drop for Harm {
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

    /// `fault`: whether it is in, where there is to be one.
    fn show(&self, elapsed: Duration, fault: Option<bool>) {
        if self.on {
            let what = match fault {
                Some(true) => ", the fault is in",
                Some(false) => ", all is well",
                None => "",
            };
            // A lost progress line is no loss.
            let mut screen = std::io::stderr();
            let _ = write!(screen, "\rtracing {:>2} s{what} ...   ", elapsed.as_secs());
            let _ = screen.flush();
        }
    }

    fn clear(&self) {
        if self.on {
            let _ = write!(std::io::stderr(), "\r{:40}\r", "");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_replaces_the_shell_and_several_are_waited_for() {
        let one = Workload { environment: &[], seconds: None, arguments: "train --cpu {cpu}" };
        let two = Workload {
            environment: &[("RANK", "1")],
            seconds: Some(8),
            arguments: "nccl --id-file {folder}/id",
        };
        assert_eq!(script(std::slice::from_ref(&one), "3"), "exec \"$SIMWORK\" train --cpu 3");
        assert_eq!(
            script(&[one, two], "3"),
            "\"$SIMWORK\" train --cpu 3 & RANK=1 timeout -s KILL 8 \"$SIMWORK\" nccl --id-file \"$FOLDER\"/id & wait"
        );
    }
}
