//! Texts of /proc, of cgroups and of containers' files, below a folder that stands for the host. An input is files: a letter that
//! says which one, and its text up to the next separator.

use super::SEPARATOR;
use crate::{Target, scratch};
use gpuwhy_host::{CgroupNames, Lookup, Root, describe_at, numa, tenant_of_cgroup};
use gpuwhy_proc::Maps;
use std::fs;
use std::path::Path;

pub(crate) const TARGET: Target = Target {
    name: "proc_texts",
    about: "maps, stat, status, environ, cgroup, mountinfo and numa_maps of a process; containers' files (proc, host, servers)",
    run,
    words: &[
        "\u{1e}c0::/",
        "kubepods.slice",
        "pod",
        "docker-",
        "cri-containerd-",
        ".scope",
        "slurmstepd.scope/job_",
        "user.slice/user-1000.slice",
        "machine.slice/libpod-",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "SLURM_PROCID=",
        "RANK=",
        "WORLD_SIZE=",
        "OMPI_COMM_WORLD_RANK=",
        "KUBERNETES_SERVICE_HOST=1\0",
        " - cgroup2 ",
        " (deleted)",
        "kernelpagesize_kB=",
        "N0=",
        "vllm\0serve\0",
        "--port\0",
        "-m\0sglang.launch_server\0",
        "65535-0,",
    ],
    runs: 2_000,
    most_bytes: 16 << 10,
};

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The order of the letters does not matter; an input's later file of the same letter wins.
const FILES: &[(u8, &str)] = &[
    (b's', "proc/1/stat"),
    (b'c', "proc/1/cgroup"),
    (b'e', "proc/1/environ"),
    (b't', "proc/1/status"),
    (b'm', "proc/1/mountinfo"),
    (b'l', "proc/1/cmdline"),
    (b'n', "proc/1/numa_maps"),
    (b'k', "proc/1/net/tcp"),
    (b'b', "proc/stat"),
    (b'u', "etc/passwd"),
    (b'g', "proc/1/root/etc/podinfo/labels"),
    (b'h', "proc/1/root/etc/hostname"),
    (b'o', "sys/devices/system/node/node0/cpulist"),
    (b'd', "var/lib/docker/containers/ID/config.v2.json"),
    (b'j', "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json"),
    (b'i', "proc/self/mountinfo"),
];

fn run(bytes: &[u8]) {
    scratch::with_folder(|folder| {
        let mut maps: &[u8] = &[];
        let mut given = Vec::new();
        for part in bytes.split(|byte| *byte == SEPARATOR) {
            match part.split_first() {
                Some((b'M', text)) => maps = text,
                Some((letter, text)) => given.push((*letter, text)),
                None => {}
            }
        }
        for (letter, path) in FILES {
            let path = folder.join(path.replace("ID", ID));
            match given.iter().rev().find(|(given, _)| given == letter) {
                Some((_, text)) => write(&path, text),
                None => drop(fs::remove_file(&path)),
            }
        }
        read(folder, maps);
    });
}

fn write(path: &Path, text: &[u8]) {
    if fs::write(path, text).is_err() {
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("a temporary folder");
        fs::write(path, text).expect("a temporary file");
    }
}

fn read(folder: &Path, maps: &[u8]) {
    for mapping in Maps::from(maps).iter() {
        assert!(mapping.start < mapping.end);
        mapping.name();
    }
    let root = Root::at(folder);
    let mut lookup = Lookup::new(root.clone());
    if let Some(mut process) = describe_at(&root, 1) {
        tenant_of_cgroup(&process.cgroup);
        lookup.tenant_of_cgroup(&process.cgroup);
        lookup.complete(&mut process);
        let topology = numa::Topology::read(folder);
        topology.nodes_of_cpus(process.cpus_allowed.as_deref().unwrap_or_default());
    }
    numa::nodes_of_memory_at(folder, 1);
    CgroupNames::new(&root).path(1);
    gpuwhy_servers::fuzz::servers(&folder.join("proc"));
}
