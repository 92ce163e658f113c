//! A process as /proc describes it.

use crate::environment::Environment;
use crate::job::Job;
use crate::numa::Allowed;
use crate::tenant::tenant;
use crate::users::user_name;
use crate::{Cgroup, Owner, Rank, Root, mounts};
use gpuwhy_model::{Container, Process};
use gpuwhy_proc::look;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The longest command line kept.
const MAX_CMDLINE_BYTES: usize = 4096;

pub fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok()
}

/// Whether any thread of a process still runs: one that has ended is there until its parent has asked for its status.
pub fn runs(pid: u32) -> bool {
    let Some(stat) = Root::default().of_process(pid, "stat") else { return false };
    // The name before it may contain anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    !matches!(state, Some('Z' | 'X')) || threads() > 1
}

/// The user who started a process; nothing if it is gone. Not who its folder in /proc belongs to: that is root for
/// processes that forbid dumps.
pub fn user_of(pid: u32) -> Option<u32> {
    let status = Root::default().of_process(pid, "status")?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// What can be known of a process now, and at once; nothing if it is gone. Its command line and environment are in its memory,
/// whose lock it may hold.
pub fn describe(pid: u32) -> Option<Process> {
    look(pid, move || describe_at(&Root::default(), pid))?
}

/// The same of a host whose files lie elsewhere.
pub fn describe_at(root: &Root, pid: u32) -> Option<Process> {
    let stat = root.of_process(pid, "stat")?;
    let (comm, rest) = split_stat(&stat)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = fields.get(19)?.parse().ok()?;
    let mut cgroup = Cgroup::of(root, pid);
    if !cgroup.owner.is_known() && is_hidden(&cgroup.path) {
        mounts::take(&mut cgroup.owner, &root.of_process(pid, "mountinfo").unwrap_or_default());
    }
    let owner = cgroup.owner;
    let environment = Environment::of(root, pid);
    let allowed = Allowed::parse(&root.of_process(pid, "status").unwrap_or_default());
    let mut process = Process {
        pid,
        parent_pid: fields.get(1)?.parse().ok()?,
        start_ns: root.start_ns(ticks)?,
        comm: comm.to_string(),
        cmdline: cmdline(root, pid),
        exe: fs::read_link(root.path(&format!("proc/{pid}/exe")))
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        uid: fs::metadata(root.path(&format!("proc/{pid}"))).map_or(0, |metadata| metadata.uid()),
        cgroup: cgroup.path,
        container_id: owner.container_id.clone(),
        container: owner.container(),
        unit: owner.unit.clone(),
        cpus_allowed: allowed.cpus,
        mems_allowed: allowed.mems,
        ..Process::default()
    };
    Rank::of(&environment).put(&mut process);
    let mut job = Job::of(&owner, &environment);
    if job.user.is_none() && job.system == Some("slurm") {
        job.user = Some(user_name(&root.hosts(), owner.job_uid.unwrap_or(process.uid)));
    }
    job.put(&mut process);
    process.tenant = tenant(&process, || user_name(&root.hosts(), process.uid));
    // Its number may have been given to another while it was read: then it is gone.
    (start_ticks(root, pid) == Some(ticks)).then_some(process)
}

impl Rank {
    /// Replaces what the process was said to be.
    pub fn put(&self, process: &mut Process) {
        process.rank = self.rank;
        process.local_rank = self.local_rank;
        process.world_size = self.world_size;
        process.local_world_size = self.local_world_size;
        process.node_rank = self.node_rank;
        process.rank_source = self.source.map(str::to_string);
    }
}

impl Owner {
    /// What is known of the container before anybody was asked. A pod's process may be in none of its containers: then
    /// it has no id.
    pub(crate) fn container(&self) -> Option<Container> {
        let named = matches!(self.runtime, Some("lxc" | "nspawn" | "libvirt"));
        (self.container_id.is_some() || self.pod_uid.is_some()).then(|| Container {
            container_id: self.container_id.clone().unwrap_or_default(),
            name: self.container_id.clone().filter(|_| named),
            runtime: self.runtime.map(str::to_string),
            pod_uid: self.pod_uid.clone(),
            qos: self.qos.map(str::to_string),
            ..Container::default()
        })
    }
}

impl Root {
    /// When a process started, in unix time.
    pub(crate) fn start_of(&self, pid: u32) -> Option<u64> {
        self.start_ns(start_ticks(self, pid)?)
    }

    /// Start times count from boot in ticks of 10 ms.
    fn start_ns(&self, ticks: u64) -> Option<u64> {
        let stat = self.text("proc/stat")?;
        let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        boot.checked_mul(1_000_000_000)?.checked_add(ticks.checked_mul(10_000_000)?)
    }
}

/// When a process started, as the kernel counts.
pub(crate) fn start_ticks(root: &Root, pid: u32) -> Option<u64> {
    let stat = root.of_process(pid, "stat")?;
    split_stat(&stat)?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A cgroup namespace shows only what lies below its own root.
fn is_hidden(cgroup: &str) -> bool {
    cgroup.split('/').all(|part| part.is_empty() || part == "..")
}

/// `123 (a (strange) name) S 1 ...`: the name may hold anything, so it ends at the last bracket.
fn split_stat(stat: &str) -> Option<(&str, &str)> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    Some((stat.get(open + 1..close)?, stat.get(close + 1..)?))
}

/// Its words, each but the last with a zero behind it: where a word ends is lost in spaces, and secrets are found by words.
fn cmdline(root: &Root, pid: u32) -> String {
    let mut bytes = root.bytes(&format!("proc/{pid}/cmdline")).unwrap_or_default();
    bytes.truncate(MAX_CMDLINE_BYTES);
    let words: Vec<_> =
        bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    words.join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_that_cannot_be_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir(folder.path().join("proc")).unwrap();
        let start = |boot: &str, ticks| {
            fs::write(folder.path().join("proc/stat"), format!("btime {boot}\n")).unwrap();
            root.start_ns(ticks)
        };
        assert_eq!(start("1700000000", 5), Some(1_700_000_000_050_000_000));
        assert_eq!((start("18446744073709551615", 5), start("1", u64::MAX)), (None, None));
    }

    #[test]
    fn strange_names_are_read() {
        assert_eq!(split_stat("12 (a) b) S 1 2").unwrap(), ("a) b", " S 1 2"));
        assert!(split_stat("nonsense").is_none());
    }

    #[test]
    fn this_process_is_described() {
        let process = describe(std::process::id()).unwrap();
        assert!(!process.comm.is_empty() && !process.exe.is_empty() && process.start_ns > 0);
        assert!(!process.tenant.is_empty() && process.cpus_allowed.is_some());
        assert_eq!(describe(u32::MAX), None);
    }
}
