//! Which processes the engine traces.

use super::{Engine, LoadError};
use crate::raw;
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::AsRawFd;

impl Engine {
    /// Traces a process, and its children if `follow`.
    pub fn add_target(&self, pid: u32, follow: bool) -> Result<(), LoadError> {
        let flags = if follow { raw::cuda::TARGET_FOLLOW } else { 0 };
        self.maps
            .get("targets")?
            .update(&pid.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::NO_EXIST)
            .or_else(
                |error| if error.kind() == libbpf_rs::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) },
            )
            .map_err(|error| LoadError::Internal(format!("process {pid} cannot be traced: {error}")))
    }

    /// Traces a process no longer; its children stay as they are.
    pub fn remove_target(&self, pid: u32) -> Result<(), LoadError> {
        match self.maps.get("targets")?.delete(&pid.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(LoadError::Internal(format!("process {pid} cannot be dropped: {error}")))
            }
            _ => Ok(()),
        }
    }

    pub fn is_target(&self, pid: u32) -> bool {
        self.maps
            .get("targets")
            .is_ok_and(|map| matches!(map.lookup(&pid.to_ne_bytes(), MapFlags::ANY), Ok(Some(_))))
    }

    pub(super) fn set_cgroup(&self, path: &std::path::Path) -> Result<(), LoadError> {
        let failed = |reason: String| LoadError::Cgroup { path: path.display().to_string(), reason };
        let folder = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
        self.maps
            .get("target_cgroup")?
            .update(&0u32.to_ne_bytes(), &folder.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| failed(format!("{error}; it must be a folder of the unified (v2) hierarchy")))
    }
}
