//! Which processes the engine traces.

use super::{Engine, LoadError};
use crate::raw;
use libbpf_rs::{Iter, MapCore, MapFlags};
use std::io::Read;
use std::os::fd::AsRawFd;

impl Engine {
    /// Traces a process, and its children if `follow`.
    pub fn add_target(&self, pid: u32, follow: bool) -> Result<(), LoadError> {
        self.add_flags(pid, if follow { raw::cuda::TARGET_FOLLOW } else { 0 })
    }

    /// Records the waits of a process because it wakes targets; neither its calls nor its children are traced for that.
    pub fn add_waker(&self, pid: u32) -> Result<(), LoadError> {
        let flags = raw::cuda::TARGET_WAITS | raw::cuda::TARGET_WAKER | raw::cuda::TARGET_OUTSIDE;
        self.add_flags(pid, flags)
    }

    /// A target wakes others: more of its waits are recorded.
    pub fn mark_waker(&self, pid: u32) -> Result<(), LoadError> {
        let map = self.maps.get("targets")?;
        let Ok(Some(flags)) = map.lookup(&pid.to_ne_bytes(), MapFlags::ANY) else { return Ok(()) };
        let Ok(flags) = flags.try_into().map(u32::from_ne_bytes) else { return Ok(()) };
        let flags = flags | raw::cuda::TARGET_WAKER;
        // It may have ended meanwhile, and must not come back.
        match map.update(&pid.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::EXIST) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(LoadError::Internal(format!("process {pid} cannot be marked: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Follows the threads that targets had before they became targets; those that begin later the kernel follows by itself.
    pub fn follow_threads(&self) {
        let walk = self.walks.get("follow_threads").and_then(|walk| Iter::new(walk).ok());
        if let Some(mut walk) = walk {
            // The walk itself does it; there is nothing to read.
            let _ = walk.read_to_end(&mut Vec::new());
        }
    }

    fn add_flags(&self, pid: u32, flags: u32) -> Result<(), LoadError> {
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
