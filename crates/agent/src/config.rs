//! What a trace is asked for.

use gpuwhy_probes::{Device, Flavour, Probe, StackMode, default_probes};
use gpuwhy_servers::Wanted;
use gpuwhy_store::Options;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where the command's standard output goes; unless it is inherited, its input and errors go nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutput {
    Inherit,
    Discard,
    File(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Config {
    pub out: PathBuf,
    pub duration: Option<Duration>,
    pub pids: Vec<u32>,
    pub cgroup: Option<PathBuf>,
    /// Program and arguments to start and trace.
    pub command: Option<Vec<OsString>>,
    pub command_output: CommandOutput,
    pub probes: Vec<&'static Probe>,
    pub stacks: StackMode,
    pub keep_all: bool,
    /// The share of its time that being watched may cost a thread; nothing for no limit.
    pub budget: Option<f64>,
    pub store: Options,
    pub flavour: Option<Flavour>,
    /// Device files whose ioctls count as the GPU driver's, besides those that are.
    pub devices: Vec<Device>,
    /// The kernel's functions that serve them, for its kprobes.
    pub driver_functions: Vec<String>,
    /// The GPU's management library, instead of the one the dynamic linker finds.
    pub nvml: Option<PathBuf>,
    /// The socket at which marks of steps and requests are taken; nothing for none.
    pub annotate: Option<PathBuf>,
    /// Inference servers to be asked for their metrics; nothing for none.
    pub servers: Option<Wanted>,
    /// Where libraries of earlier traces are remembered; nothing to remember none.
    pub known_libraries: Option<PathBuf>,
    /// The command line, for the record.
    pub flags: Vec<String>,
    /// Secrets on command lines are neither stored nor sent.
    pub mask: bool,
    /// Send each batch as an update too.
    pub watch_batches: bool,
    /// Collect the batches for a recording.
    pub record: bool,
}

impl Config {
    /// Nobody in particular was asked for.
    pub(crate) fn traces_everyone(&self) -> bool {
        self.pids.is_empty() && self.command.is_none() && self.cgroup.is_none()
    }

    pub fn new(out: PathBuf) -> Self {
        Config {
            out,
            duration: None,
            pids: Vec::new(),
            cgroup: None,
            command: None,
            command_output: CommandOutput::Inherit,
            probes: default_probes(),
            stacks: StackMode::Auto,
            keep_all: false,
            budget: Some(0.01),
            store: Options::default(),
            flavour: None,
            devices: Vec::new(),
            driver_functions: Vec::new(),
            nvml: None,
            annotate: None,
            servers: None,
            known_libraries: None,
            flags: Vec::new(),
            mask: true,
            watch_batches: false,
            record: false,
        }
    }
}
