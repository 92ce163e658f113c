//! What the loader is asked for.

use super::Flavour;
use crate::driver::Device;
use crate::probe::{Library, Probe, When};
use std::path::PathBuf;

/// 1 MiB for each shard.
const RING_BYTES: u32 = 1 << 20;

/// Which processes are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Those given by [`Engine::add_target`], and their children where asked.
    Listed,
    /// Those in a cgroup of the unified hierarchy and below it.
    Cgroup(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackMode {
    Off,
    /// For calls that are slow, failed or rare.
    Auto,
    /// For every kept call.
    On,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub probes: Vec<&'static Probe>,
    pub scope: Scope,
    pub stacks: StackMode,
    /// Keep every call in full.
    pub keep_all: bool,
    /// The flavour to use; the best one when not given.
    pub flavour: Option<Flavour>,
    pub ring_bytes: u32,
    /// The GPU driver's device files.
    pub devices: Vec<Device>,
    /// Functions of the kernel that serve them, besides those that are known.
    pub driver_functions: Vec<String>,
    /// Libraries that are known to be attached at once: their probes are loaded with the others, side by side.
    pub libraries: Vec<Library>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            probes: default_probes(),
            scope: Scope::All,
            stacks: StackMode::Auto,
            keep_all: false,
            flavour: None,
            ring_bytes: RING_BYTES,
            devices: Vec::new(),
            driver_functions: Vec::new(),
            libraries: Vec::new(),
        }
    }
}

/// Those that are on unless something else is asked for.
pub fn default_probes() -> Vec<&'static Probe> {
    crate::PROBES.iter().copied().filter(|probe| probe.when != When::Asked).collect()
}
