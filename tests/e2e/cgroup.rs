//! A cgroup of a test's own, in whichever hierarchy has what it needs.

use crate::support::wait_until;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Goes with the test, with everything above it that the test made.
pub(crate) struct Cgroup {
    top: PathBuf,
    pub(crate) folder: PathBuf,
    /// Of version 2, whose files have other names.
    pub(crate) unified: bool,
}

struct Hierarchy {
    point: PathBuf,
    unified: bool,
    options: String,
}

fn hierarchies() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_line = |line: &str| {
        let (mount, file_system) = line.split_once(" - cgroup")?;
        Some(Hierarchy {
            point: mount.split(' ').nth(4)?.into(),
            unified: file_system.starts_with('2'),
            options: file_system.split(' ').next_back()?.to_string(),
        })
    };
    mounts.lines().filter_map(of_line).collect()
}

impl Hierarchy {
    /// A controller that children of the root have. None is switched on for a test: that concerns the whole host.
    fn has(&self, controller: &str) -> bool {
        if self.unified {
            // By its older name where it had another.
            let name = if controller == "blkio" { "io" } else { controller };
            let children = fs::read_to_string(self.point.join("cgroup.subtree_control")).unwrap_or_default();
            return children.split_whitespace().any(|word| word == name);
        }
        self.options.split(',').any(|word| word == controller)
    }

    fn make(&self, path: &str) -> Option<Cgroup> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let top = self.point.join(format!("gpuwhy-test-{}-{number}", std::process::id()));
        let cgroup = Cgroup { folder: top.join(path), top, unified: self.unified };
        fs::create_dir_all(&cgroup.folder).ok()?;
        cgroup.folder.join("cgroup.procs").exists().then_some(cgroup)
    }
}

impl Cgroup {
    /// In any hierarchy.
    pub(crate) fn make(path: &str) -> Option<Cgroup> {
        hierarchies().iter().find_map(|hierarchy| hierarchy.make(path))
    }

    /// In one that has a controller, by its name in version 1.
    pub(crate) fn with(controller: &str) -> Option<Cgroup> {
        hierarchies()
            .iter()
            .filter(|hierarchy| hierarchy.has(controller))
            // At the top: there its weight counts beside everybody else's.
            .find_map(|hierarchy| hierarchy.make(""))
    }

    /// Writes a value to one of its files, which has two names.
    pub(crate) fn set(&self, version_1: (&str, &str), version_2: (&str, &str)) {
        let (file, value) = if self.unified { version_2 } else { version_1 };
        fs::write(self.folder.join(file), value)
            .unwrap_or_else(|error| panic!("cannot write '{value}' to {file} of a cgroup: {error}"));
    }

    pub(crate) fn enter(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// A number of a file of names and numbers.
    pub(crate) fn number_in(&self, file: &str, name: &str) -> i64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        let word = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        word.unwrap_or_else(|| panic!("no {name} in {file}: {text}")).trim().parse().unwrap()
    }

    fn is_empty(&self) -> bool {
        fs::read_to_string(self.folder.join("cgroup.procs")).is_ok_and(|text| text.is_empty())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // One that died may be there for a moment more.
        if !std::thread::panicking() {
            wait_until("the cgroup is empty", || self.is_empty());
        }
        let mut folder: &Path = &self.folder;
        while fs::remove_dir(folder).is_ok() && folder != self.top {
            let Some(parent) = folder.parent() else { break };
            folder = parent;
        }
    }
}
