//! The servers that run here: told by their command lines, and by the ports their processes listen on.

use crate::Target;
use crate::kind::{Command, Kind};
use crate::kinds::of_command;
use gpuwhy_proc::look;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

const MAX_CMDLINE_BYTES: usize = 64 * 1024;
/// Of one process: its API, its metrics, and what its parts talk to each other by.
const MAX_PORTS: usize = 8;
/// How deep below a launcher the process that listens may be.
const DEPTH: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) kind: &'static Kind,
    pub(crate) pid: u32,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where its page may be, the likelier first.
    Here(Vec<Target>),
    /// Its network is not ours.
    OtherNetwork,
    /// It has not begun to listen, or nobody may know.
    Nowhere,
}

/// `proc` is `/proc`, or a folder that stands for it.
pub(crate) fn find(proc: &Path) -> Vec<Found> {
    let host = Host { proc };
    let pids = host.pids();
    let mut own_network = None;
    let mut taken: BTreeSet<SocketAddr> = BTreeSet::new();
    let mut found: Vec<Found> = Vec::new();
    let mut children: Option<BTreeMap<u32, Vec<u32>>> = None;
    for pid in &pids {
        let words = host.words(*pid);
        let command = Command { words: &words };
        let Some(kind) = of_command(&command) else { continue };
        let own = own_network.get_or_insert_with(|| host.network("self"));
        let network = host.network(&pid.to_string());
        if network.is_some() && own.is_some() && network != *own {
            found.push(Found { kind, pid: *pid, place: Place::OtherNetwork });
            continue;
        }
        let children = children.get_or_insert_with(|| host.children(&pids));
        let mut listens = host.listens(*pid);
        for child in below(*pid, children) {
            listens.extend(host.listens(child));
        }
        let port = port_of(kind, &command);
        let hinted: Vec<SocketAddr> = listens.iter().copied().filter(|at| at.port() == port).collect();
        let mut targets: Vec<SocketAddr> =
            if hinted.is_empty() { listens.into_iter().collect() } else { hinted };
        // A server's own children have its command line too, and its sockets.
        targets.retain(|address| taken.insert(*address));
        targets.truncate(MAX_PORTS);
        let is_known = |other: &Found| other.kind.name == kind.name && is_below(*pid, other.pid, children);
        if targets.is_empty() && found.iter().any(is_known) {
            continue;
        }
        let place = match targets.is_empty() {
            true => Place::Nowhere,
            false => Place::Here(targets.into_iter().map(Target::at).collect()),
        };
        found.push(Found { kind, pid: *pid, place });
    }
    found
}

fn port_of(kind: &Kind, command: &Command<'_>) -> u16 {
    let named = kind.port_options.iter().find_map(|option| command.option(option)?.parse().ok());
    named.unwrap_or(kind.port)
}

fn below(pid: u32, children: &BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
    let mut all = Vec::new();
    let mut level = vec![pid];
    for _ in 0..DEPTH {
        level = level.iter().flat_map(|pid| children.get(pid).cloned().unwrap_or_default()).collect();
        all.extend(&level);
    }
    all
}

fn is_below(pid: u32, other: u32, children: &BTreeMap<u32, Vec<u32>>) -> bool {
    below(other, children).contains(&pid)
}

/// The files of the kernel that tell.
struct Host<'a> {
    proc: &'a Path,
}

impl Host<'_> {
    fn of(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }

    /// In the order of their numbers: parents mostly before children.
    fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.proc).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    fn words(&self, pid: u32) -> Vec<String> {
        let path = self.of(pid, "cmdline");
        let mut bytes = look(pid, || fs::read(path)).and_then(Result::ok).unwrap_or_default();
        bytes.truncate(MAX_CMDLINE_BYTES);
        let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    /// What tells one network from another.
    fn network(&self, pid: &str) -> Option<PathBuf> {
        fs::read_link(self.proc.join(pid).join("ns/net")).ok()
    }

    fn children(&self, pids: &[u32]) -> BTreeMap<u32, Vec<u32>> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in pids {
            let stat = fs::read_to_string(self.of(*pid, "stat")).unwrap_or_default();
            // The name may hold anything, so it ends at the last bracket; then the state, then the parent.
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1));
            if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
                children.entry(parent).or_default().push(*pid);
            }
        }
        children
    }

    /// Where a process listens, as addresses that can be asked from here.
    fn listens(&self, pid: u32) -> BTreeSet<SocketAddr> {
        let inodes: BTreeSet<u64> = fs::read_dir(self.of(pid, "fd"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = fs::read_link(entry.path()).ok()?;
                name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            })
            .collect();
        if inodes.is_empty() {
            return BTreeSet::new();
        }
        let table = |name: &str| fs::read_to_string(self.of(pid, name)).unwrap_or_default();
        let sockets = [table("net/tcp"), table("net/tcp6")];
        let listening = sockets.iter().flat_map(|text| text.lines()).filter_map(listening);
        listening.filter(|(_, inode)| inodes.contains(inode)).map(|(address, _)| reachable(address)).collect()
    }
}

/// A line of `/proc/PID/net/tcp` of a socket that listens: where, and its inode.
fn listening(line: &str) -> Option<(SocketAddr, u64)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTEN {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Words of 32 bits, each as the machine has it.
    let word = |at: usize| u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok();
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((SocketAddr::new(ip, port), fields.get(9)?.parse().ok()?))
}

/// Who listens everywhere listens on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        // Unless it was told otherwise, it takes both kinds.
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    struct Fake(TempDir);

    impl Fake {
        fn new() -> Fake {
            let fake = Fake(tempfile::tempdir().unwrap());
            fake.add("self", "", 0, "net:[1]", &[]);
            fake
        }

        /// A process with listening sockets: address in the kernel's words, and inode.
        fn add(&self, pid: &str, words: &str, parent: u32, network: &str, sockets: &[(&str, u64)]) {
            let folder = self.0.path().join(pid);
            for part in ["ns", "fd", "net"] {
                fs::create_dir_all(folder.join(part)).unwrap();
            }
            symlink(network, folder.join("ns/net")).unwrap();
            fs::write(folder.join("cmdline"), words.replace(' ', "\0")).unwrap();
            fs::write(folder.join("stat"), format!("{pid} (a) b) S {parent} 1 1")).unwrap();
            let mut four = String::from("  sl  local_address rem_address   st\n");
            let mut six = four.clone();
            for (at, (address, inode)) in sockets.iter().enumerate() {
                symlink(format!("socket:[{inode}]"), folder.join(format!("fd/{at}"))).unwrap();
                let line = format!(" {at}: {address} 0:0 0A 0:0 00:0 0 0 0 {inode} 1\n");
                if address.len() > 20 { six += &line } else { four += &line }
            }
            // A connection, and somebody else's socket, are not where it listens.
            four += " 8: 0100007F:1F90 0:0 01 0:0 00:0 0 0 0 4711 1\n 9: 0100007F:0050 0:0 0A 0:0 00:0 0 0 0 4712 1\n";
            fs::write(folder.join("net/tcp"), four).unwrap();
            fs::write(folder.join("net/tcp6"), six).unwrap();
        }

        fn found(&self) -> Vec<String> {
            let say = |found: Found| {
                let place = match found.place {
                    Place::Here(targets) => targets.iter().map(Target::url).collect::<Vec<_>>().join(" "),
                    Place::OtherNetwork => "other network".into(),
                    Place::Nowhere => "nowhere".into(),
                };
                format!("{} {} {place}", found.kind.name, found.pid)
            };
            find(self.0.path()).into_iter().map(say).collect()
        }
    }

    #[test]
    fn servers_are_found_where_they_listen() {
        let fake = Fake::new();
        fake.add(
            "10",
            "/usr/bin/python3 /opt/bin/vllm serve m --port 8080",
            1,
            "net:[1]",
            &[("00000000:1F90", 1), ("0100007F:2000", 2)],
        );
        // A fork of it, with its command line and its sockets.
        fake.add(
            "11",
            "/usr/bin/python3 /opt/bin/vllm serve m --port 8080",
            10,
            "net:[1]",
            &[("00000000:1F90", 1)],
        );
        fake.add("20", "python -m sglang.launch_server --port=31000", 1, "net:[1]", &[("0100007F:7918", 3)]);
        fake.add("30", "text-generation-launcher --model-id m", 1, "net:[1]", &[]);
        fake.add("31", "text-generation-router -p 3000", 30, "net:[1]", &[("00000000:0BB8", 4)]);
        fake.add(
            "40",
            "/opt/tritonserver/bin/tritonserver --model-repository=/m",
            1,
            "net:[1]",
            &[("00000000000000000000000000000000:1F42", 5)],
        );
        fake.add("50", "vllm serve hidden", 1, "net:[2]", &[("00000000:1F40", 6)]);
        fake.add("60", "vllm bench serve", 1, "net:[1]", &[("0100007F:1F41", 7)]);
        fake.add("70", "python train.py", 1, "net:[1]", &[("0100007F:1F40", 8)]);
        assert_eq!(
            fake.found(),
            [
                "vllm 10 http://127.0.0.1:8080/metrics",
                "sglang 20 http://127.0.0.1:31000/metrics",
                "tgi 30 http://127.0.0.1:3000/metrics",
                "triton 40 http://[::1]:8002/metrics",
                "vllm 50 other network",
            ]
        );
    }

    #[test]
    fn a_server_that_does_not_listen_yet_is_nowhere() {
        let fake = Fake::new();
        fake.add("10", "vllm serve m", 1, "net:[1]", &[]);
        assert_eq!(fake.found(), ["vllm 10 nowhere"]);
        // On another port than it was told: all that it has.
        fake.add("20", "vllm serve m --uds x", 1, "net:[1]", &[("0100007F:0001", 1), ("0100007F:0002", 2)]);
        assert_eq!(fake.found()[1], "vllm 20 http://127.0.0.1:1/metrics http://127.0.0.1:2/metrics");
    }
}
