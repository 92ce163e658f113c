//! Control groups: which one a process is in, which container that is, and who else is in it.

use std::fs;
use std::path::{Path, PathBuf};

/// A process's place in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cgroup {
    pub path: String,
    pub container_id: Option<String>,
}

impl Cgroup {
    /// Of a process; the unified hierarchy if it says anything, else the one with CPU accounting.
    pub fn of(pid: u32) -> Cgroup {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default())
    }

    fn parse(text: &str) -> Cgroup {
        let lines: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                Some((fields.next()?, fields.next()?))
            })
            .collect();
        let unified = lines.iter().find(|(controllers, path)| controllers.is_empty() && *path != "/");
        let by_cpu = lines.iter().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"));
        let path = unified.or(by_cpu).or(lines.first()).map_or("", |(_, path)| path);
        Cgroup { path: path.to_string(), container_id: container_id(path) }
    }
}

/// The container a cgroup path belongs to: docker, containerd, cri-o and podman all end in 64 hex digits.
pub fn container_id(path: &str) -> Option<String> {
    path.rsplit('/').find_map(|part| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let id = part.rsplit(['-', ':']).next().unwrap_or(part);
        (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_string())
    })
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
    fn containers_are_told_by_their_cgroup() {
        let id = "a".repeat(64);
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"),
            format!("/kubepods/burstable/pod1/{id}"),
            format!("/machine.slice/libpod-{id}.scope/container"),
        ] {
            assert_eq!(container_id(&path), Some(id.clone()), "{path}");
        }
        assert_eq!(container_id("/user.slice/session-1.scope"), None);
    }

    #[test]
    fn unified_and_hybrid_hierarchies_are_read() {
        assert_eq!(Cgroup::parse("0::/user.slice/a.scope\n").path, "/user.slice/a.scope");
        assert_eq!(Cgroup::parse("4:memory:/m\n3:cpu,cpuacct:/jobs/1\n0::/\n").path, "/jobs/1");
        assert_eq!(Cgroup::parse("").path, "");
    }
}
