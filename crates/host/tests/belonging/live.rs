//! Real processes in real cgroups and mount namespaces.

use gpuwhy_host::{CgroupNames, Lookup, describe};
use gpuwhy_testkit::skip;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process with an `/etc` of its own, in a cgroup of its own; both go with it.
struct Guest {
    child: Child,
    cgroup: PathBuf,
}

impl Guest {
    fn start(cgroup: &Path, etc: &Path, environment: &[(&str, &str)]) -> Option<Guest> {
        let script = format!("mount --bind {} /etc && echo ready && read -r _", etc.display());
        let mut child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut()?).read_line(&mut line).ok()?;
        let guest = Guest { child, cgroup: cgroup.into() };
        let moved = fs::create_dir_all(cgroup)
            .and_then(|()| fs::write(cgroup.join("cgroup.procs"), guest.child.id().to_string()));
        (line == "ready\n" && moved.is_ok()).then_some(guest)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // From the innermost folder outwards, as far as they are empty.
        let mut folder = self.cgroup.as_path();
        while fs::remove_dir(folder).is_ok() {
            let Some(parent) = folder.parent() else { break };
            folder = parent;
        }
    }
}

/// Mount points of the unified hierarchy and of an old one.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of = |kind: &str, option: &str| {
        let line = mounts.lines().find(|line| {
            line.split_once(" - ").is_some_and(|(_, kinds)| {
                kinds.split(' ').next() == Some(kind)
                    && kinds.split([' ', ',']).any(|word| word == option || option.is_empty())
            })
        })?;
        Some(PathBuf::from(line.split(' ').nth(4)?))
    };
    [of("cgroup2", ""), of("cgroup", "pids").or_else(|| of("cgroup", "freezer"))]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn processes_in_two_containers_are_never_mixed_up() {
    const TEST: &str = "processes_in_two_containers_are_never_mixed_up";
    let folder = tempfile::tempdir().unwrap();
    let uids = ["0a1b2c3d-1111-2222-3333-444455556666", "ffffffff-1111-2222-3333-444455556666"];
    let pods = ["train-0", "server-1"];
    for (pod, uid) in pods.iter().zip(uids) {
        let info = folder.path().join(pod).join("podinfo");
        fs::create_dir_all(&info).unwrap();
        fs::write(folder.path().join(pod).join("hostname"), pod).unwrap();
        fs::write(info.join("namespace"), format!("of-{pod}")).unwrap();
        fs::write(info.join("uid"), uid).unwrap();
    }
    let mut tried = 0;
    for hierarchy in hierarchies() {
        let top = hierarchy.join(format!("gpuwhy-test-{}", std::process::id()));
        let guest = |n: usize| {
            let id = ["a", "b"][n].repeat(64);
            let cgroup = top.join(format!("kubepods/pod{}/{id}", uids[n]));
            let rank = n.to_string();
            Guest::start(&cgroup, &folder.path().join(pods[n]), &[("RANK", &rank), ("WORLD_SIZE", "2")])
        };
        let (Some(one), Some(two)) = (guest(0), guest(1)) else { continue };
        tried += 1;
        let mut lookup = Lookup::default();
        // In both orders, so that nothing remembered of one is said of the other.
        for n in [0, 1, 1, 0, 1] {
            let child = [&one, &two][n].child.id();
            let mut process = describe(child).unwrap();
            lookup.complete(&mut process);
            assert_eq!(process.tenant, format!("of-{0}/{0}", pods[n]));
            assert_eq!(process.container_id, Some(["a", "b"][n].repeat(64)));
            assert_eq!(process.container.unwrap().pod_uid.as_deref(), Some(uids[n]));
            assert_eq!((process.rank, process.world_size), (Some(n as i32), Some(2)));
            assert_eq!(process.rank_source.as_deref(), Some("torchrun"));
        }
        if one.cgroup.join("cgroup.controllers").exists() {
            let mut names = CgroupNames::default();
            let cgroup = one.cgroup.strip_prefix(&hierarchy).unwrap().display().to_string();
            let number = fs::metadata(&one.cgroup).unwrap().ino();
            assert_eq!(names.path(number), Some(format!("/{cgroup}").as_str()));
        }
        let gone = describe(one.child.id()).unwrap();
        drop(one);
        let mut process = gone.clone();
        lookup.complete(&mut process);
        assert_eq!(process.pid, gone.pid);
        assert_eq!(
            process.tenant,
            format!("pod:{}", uids[0]),
            "it is gone, and the other's names are not its own"
        );
    }
    if tried == 0 {
        skip(TEST, "no cgroup could be made, or no mount namespace");
    }
}
