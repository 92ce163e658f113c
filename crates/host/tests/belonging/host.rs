//! A host made of files.

use gpuwhy_confine::{Parser, Purpose};
use gpuwhy_host::{Lookup, Root, describe_at};
use gpuwhy_model::Process;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) struct Host {
    folder: TempDir,
}

pub(crate) fn id(digit: char) -> String {
    digit.to_string().repeat(64)
}

impl Host {
    pub(crate) fn new() -> Host {
        let host = Host { folder: tempfile::tempdir().unwrap() };
        host.write("proc/stat", "cpu 1 2 3\nbtime 1700000000\n");
        host.write("proc/sys/kernel/hostname", "node-1\n");
        host
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Variables are separated by blanks.
    pub(crate) fn process(&self, pid: u32, cgroup: &str, environment: &str) {
        let start = 1000 + pid;
        let zeros = "0 ".repeat(17);
        self.write(&format!("proc/{pid}/stat"), format!("{pid} (python) S 1 {zeros}{start} 0 0\n"));
        self.write(&format!("proc/{pid}/cgroup"), format!("0::{cgroup}\n"));
        self.write(&format!("proc/{pid}/environ"), environment.replace(' ', "\0"));
        self.write(&format!("proc/{pid}/cmdline"), "python\0train.py\0");
        self.write(&format!("proc/{pid}/status"), "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n");
        fs::create_dir_all(self.path(&format!("proc/{pid}/root"))).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    /// Reads in a confined thread, as the agent does.
    pub(crate) fn lookup(&self) -> Lookup {
        Lookup::reading_in(Parser::start("test-answers", Purpose::Talk), self.root())
    }

    pub(crate) fn describe(&self, pid: u32) -> Process {
        describe_at(&self.root(), pid).unwrap()
    }

    /// With everything that can be found.
    pub(crate) fn whole(&self, pid: u32) -> Process {
        let mut process = self.describe(pid);
        self.lookup().complete(&mut process);
        process
    }
}

/// Runtime, name, image, pod and namespace of a process's container.
pub(crate) fn of(process: &Process) -> [Option<&str>; 5] {
    let Some(container) = &process.container else { return [None; 5] };
    [&container.runtime, &container.name, &container.image, &container.pod, &container.namespace]
        .map(Option::as_deref)
}
