//! A command that is traced and waits at gates: it goes on when the trace knows it.

use crate::support::{Running, Trace, wait_until};
use std::ffi::OsStr;
use std::path::Path;

pub(crate) struct Victim {
    running: Running,
    folder: tempfile::TempDir,
    passed: Vec<u64>,
}

impl Victim {
    /// Its libraries are in the folders `libraries`: the environment tells before it starts.
    pub(crate) fn start(
        trace: &Trace,
        flags: &[&str],
        libraries: &[&Path],
        words: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Victim {
        let folder = tempfile::tempdir().unwrap();
        let gate = folder.path().join("gate");
        let path = std::env::join_paths(libraries).unwrap();
        let mut all = environment.to_vec();
        all.push(("LD_LIBRARY_PATH", &path));
        all.push(("VICTIM_GATE", gate.as_os_str()));
        let flags: Vec<&str> = flags.iter().copied().chain(["--"]).chain(words.iter().copied()).collect();
        let running = Running::start_with(trace, &flags, &all);
        Victim { running, folder, passed: Vec::new() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets one at a gate on when the trace has seen its first call; its pid.
    pub(crate) fn pass(&mut self, gate: &str) -> u64 {
        let ready = self.folder().join(format!("{gate}.ready"));
        wait_until("the victim is ready", || ready.exists());
        let pid = std::fs::read_to_string(ready).unwrap().parse().unwrap();
        self.passed.push(pid);
        let times = self.passed.iter().filter(|passed| **passed == pid).count();
        self.running.until_called(pid, "cudaFree", times as u64);
        std::fs::write(self.folder().join(gate), "").unwrap();
        pid
    }

    /// Waits for the end of one that was let on.
    pub(crate) fn until_ended(&mut self, pid: u64) {
        self.running.until_ended(&[pid as u32]);
    }

    /// Waits for the end of all.
    pub(crate) fn finish(&mut self) {
        self.running.finish();
    }
}
