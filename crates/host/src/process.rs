//! A process as /proc describes it.

use crate::{Cgroup, rank_of};
use gpuwhy_model::Process;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The longest command line kept.
const MOST_CMDLINE_BYTES: usize = 4096;

pub fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok()
}

/// What can be known of a process now; nothing if it is gone.
pub fn describe(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (comm, rest) = split_stat(&stat)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let cgroup = Cgroup::of(pid);
    let rank = rank_of(pid);
    Some(Process {
        pid,
        parent_pid: fields.get(1)?.parse().ok()?,
        start_ns: start_ns(fields.get(19)?.parse().ok()?)?,
        end_ns: None,
        exit_code: None,
        comm: comm.to_string(),
        cmdline: cmdline(pid),
        exe: fs::read_link(format!("/proc/{pid}/exe"))
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        uid: fs::metadata(format!("/proc/{pid}")).map_or(0, |metadata| metadata.uid()),
        cgroup_id: 0,
        cgroup: cgroup.path,
        container_id: cgroup.container_id,
        rank: rank.rank,
        local_rank: rank.local_rank,
        world_size: rank.world_size,
    })
}

/// `123 (a (strange) name) S 1 ...`: the name may hold anything, so it ends at the last bracket.
fn split_stat(stat: &str) -> Option<(&str, &str)> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    Some((stat.get(open + 1..close)?, stat.get(close + 1..)?))
}

/// Start times count from boot in ticks of 10 ms.
fn start_ns(ticks: u64) -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let boot: u64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot * 1_000_000_000 + ticks * 10_000_000)
}

fn cmdline(pid: u32) -> String {
    let mut bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes.truncate(MOST_CMDLINE_BYTES);
    let words: Vec<_> =
        bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_names_are_read() {
        assert_eq!(split_stat("12 (a) b) S 1 2").unwrap(), ("a) b", " S 1 2"));
        assert!(split_stat("nonsense").is_none());
    }

    #[test]
    fn this_process_is_described() {
        let process = describe(std::process::id()).unwrap();
        assert!(!process.comm.is_empty() && !process.exe.is_empty() && process.start_ns > 0);
        assert_eq!(describe(u32::MAX), None);
    }
}
