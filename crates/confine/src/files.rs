//! Files that a thread may reach, by Landlock.

use crate::Purpose;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What everybody who makes connections reads: names of hosts, certificates, time zones.
const OF_THE_HOST: [&str; 9] = [
    "/etc",
    "/usr/share",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/share",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// What a database asks of the machine it runs on: CPUs, memory, time zones. DuckDB fails where it may not ask.
const OF_THE_MACHINE: [&str; 7] = [
    "/proc/self/cgroup",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/etc/localtime",
    "/usr/share/zoneinfo",
];

type Rules = Vec<(PathBuf, BitFlags<AccessFs>)>;

/// Whether the kernel keeps the thread to it; one that has no Landlock does not, and those that go anywhere are not asked.
pub(crate) fn restrict(purpose: &Purpose) -> bool {
    let all = AccessFs::from_all(ABI::V3);
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules: Rules = match purpose {
        Purpose::Parse | Purpose::Compute | Purpose::Talk | Purpose::Write => Vec::new(),
        Purpose::Read(folder) => vec![(folder.clone(), reading)],
        Purpose::Open(folder) | Purpose::Store(folder) => vec![(folder.clone(), all)],
        Purpose::Database(folder) => {
            let machine = OF_THE_MACHINE.iter().map(|path| (PathBuf::from(path), reading));
            machine.chain([(folder.clone(), all)]).collect()
        }
        Purpose::Answer(folders) => folders.iter().map(|folder| (folder.clone(), all)).collect(),
        Purpose::Spool(folder) => {
            let of_host = OF_THE_HOST.iter().map(|folder| (PathBuf::from(folder), reading));
            // The terminal.
            let devices = (PathBuf::from("/dev"), AccessFs::ReadFile | AccessFs::WriteFile);
            of_host.chain([devices, (folder.clone(), all)]).collect()
        }
        Purpose::Serve | Purpose::Look | Purpose::Drive | Purpose::Start | Purpose::Front(_) => return false,
    };
    let restricted = || {
        let set = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
        // What is not there needs no rule.
        let there = rules.iter().filter_map(|(folder, access)| {
            Some(Ok::<_, RulesetError>(PathBeneath::new(PathFd::new(folder).ok()?, *access)))
        });
        set.create()?.add_rules(there)?.restrict_self()
    };
    restricted().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

pub(crate) fn is_own(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
}
