//! The simulated GPU and its workloads, unpacked for a run.

use anyhow::{Context, Result, bail};
use gpuwhy_probes::{Library, LibraryFile};
use gpuwhy_proc::TargetFile;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::{Command, Stdio};

#[derive(Debug)]
pub(crate) struct Workload {
    folder: tempfile::TempDir,
}

/// What the workload prints last.
#[derive(Debug, Deserialize)]
struct Truth {
    elapsed_ns: u64,
}

/// The same number of launches through the driver and through a copy of it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Beside {
    driver_ns: u64,
    copy_ns: u64,
}

impl Beside {
    /// What the driver's launches took longer than the copy's, of all the time the thread would have needed.
    pub(crate) fn cost_pct(self) -> f64 {
        100.0 * (self.driver_ns as f64 - self.copy_ns as f64) / (2.0 * self.copy_ns as f64)
    }
}

impl Workload {
    pub(crate) fn unpack() -> Result<Workload> {
        let folder = tempfile::Builder::new().prefix("gpuwhy-bench-").tempdir()?;
        gpuwhy_simgpu::unpack(folder.path())?;
        Ok(Workload { folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.path(gpuwhy_simgpu::WORKLOAD)
    }

    /// The libraries gpuwhy probes.
    pub(crate) fn libraries(&self) -> Result<Vec<LibraryFile>> {
        let mut files = Vec::new();
        for file in gpuwhy_simgpu::FILES {
            if let Some(library) = Library::of_file_name(file.name) {
                let path = self.path(file.name);
                let file = TargetFile::at(&path).context("a library cannot be read")?;
                files.push(LibraryFile {
                    library,
                    file,
                    shown_path: path.display().to_string(),
                    pid: None,
                    sites: None,
                });
            }
        }
        Ok(files)
    }

    /// Nanoseconds a launch took in a loop of launches that do nothing else, on one CPU.
    pub(crate) fn launch_ns(&self, launches: u64) -> Result<f64> {
        let mut command = self.command("launch");
        command.args(["--via", "driver", "--threads", "1", "--cpu", "0", "--launches"]);
        let truth: Truth = reported(command.arg(launches.to_string()))?;
        Ok(truth.elapsed_ns as f64 / launches as f64)
    }

    /// Launches that do nothing, through the driver and through a copy of it, in turns.
    pub(crate) fn beside(&self, seconds: u64) -> Result<Beside> {
        let copy = self.path("unwatched.so");
        std::fs::copy(self.path("libcuda.so.1"), &copy)?;
        let mut command = self.command("beside");
        command.args(["--cpu", "0", "--seconds", &seconds.to_string(), "--copy"]).arg(copy);
        reported(&mut command)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program());
        command.arg(name).env("SIMGPU_NULL", "1");
        command
    }
}

/// What a workload says of itself at its end.
fn reported<T: for<'a> Deserialize<'a>>(command: &mut Command) -> Result<T> {
    let output = command.stderr(Stdio::inherit()).output().context("the workload could not be started")?;
    if !output.status.success() {
        bail!("the workload ended with {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}
