//! Control groups: which one a process is in, whose that is, and who else is in it.

use crate::{Owner, Root};
use std::fs;
use std::path::{Path, PathBuf};

/// A process's place in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cgroup {
    pub path: String,
    pub owner: Owner,
}

impl Cgroup {
    /// Of a process; the unified hierarchy if it says anything, else the one with CPU accounting. A hierarchy that
    /// tells whose the process is goes first: not all of them are used by every runtime.
    pub fn of(root: &Root, pid: u32) -> Cgroup {
        Self::parse(&root.of_process(pid, "cgroup").unwrap_or_default())
    }

    fn parse(text: &str) -> Cgroup {
        let mut lines: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                Some((fields.next()?, fields.next()?))
            })
            .collect();
        // Stable: hierarchies of the same merit stay in the kernel's order.
        lines.sort_by_key(|(controllers, path)| match *controllers {
            _ if *path == "/" => 3,
            "" => 0,
            names if names.split(',').any(|name| name == "cpu") => 1,
            _ => 2,
        });
        let mut path = None;
        let mut owner = Owner::default();
        for (_, of) in &lines {
            let reported = Owner::of(of);
            if reported.is_known() && path.is_none() {
                path = Some(*of);
            }
            owner.complete(reported);
        }
        let path = path.or(lines.first().map(|(_, path)| *path)).unwrap_or_default();
        Cgroup { path: path.to_string(), owner }
    }
}

/// The processes of a cgroup folder and the folders below it, by any hierarchy's `cgroup.procs`.
pub fn processes_in(folder: &Path) -> std::io::Result<Vec<u32>> {
    let text = fs::read_to_string(folder.join("cgroup.procs"))?;
    let mut pids: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    for entry in fs::read_dir(folder)?.filter_map(Result::ok) {
        let path: PathBuf = entry.path();
        // Not through links: a cgroup tree has none.
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            pids.extend(processes_in(&path).unwrap_or_default());
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_and_hybrid_hierarchies_are_read() {
        assert_eq!(Cgroup::parse("0::/user.slice/a.scope\n").path, "/user.slice/a.scope");
        assert_eq!(Cgroup::parse("4:memory:/m\n3:cpu,cpuacct:/jobs/1\n0::/\n").path, "/jobs/1");
        assert_eq!(Cgroup::parse("4:memory:/m\n3:cpu,cpuacct:/\n0::/\n").path, "/m");
        assert_eq!(Cgroup::parse("3:cpu:/\n0::/\n").path, "/");
        assert_eq!(Cgroup::parse("").path, "");
        assert_eq!(Cgroup::parse("nonsense\n:\n::\n").path, "");
    }

    #[test]
    fn any_hierarchy_may_tell_whose_it_is() {
        let id = "a".repeat(64);
        let slurm = Cgroup::parse(
            "5:freezer:/slurm/uid_7/job_42/step_0\n3:cpu,cpuacct:/system.slice/slurmd.service\n0::/\n",
        );
        assert_eq!(
            (slurm.path.as_str(), slurm.owner.job_id.as_deref()),
            ("/slurm/uid_7/job_42/step_0", Some("42"))
        );
        let both =
            Cgroup::parse(&format!("5:freezer:/slurm/uid_7/job_42\n4:pids:/docker/{id}\n0::/init.scope\n"));
        assert_eq!(both.owner.container_id, Some(id));
        assert_eq!(both.owner.job_id.as_deref(), Some("42"));
    }
}
