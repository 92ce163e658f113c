//! Memory nodes: which one a CPU, a GPU and a process's memory are on.

use crate::Root;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// The most that is read of a process's map of its memory; beyond it the sums are of a part.
const MAX_MAP_BYTES: u64 = 8 << 20;
/// The kernel walks all pages of a process to tell where they are.
const ASK_EVERY: Duration = Duration::from_secs(30);
/// Processes remembered; beyond it all are forgotten and asked anew.
const MAX_PROCESSES: usize = 4096;

/// The host's nodes and their CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    nodes: BTreeMap<u32, BTreeSet<u32>>,
}

impl Topology {
    /// From `sys/devices/system/node` below `root`, which is `/` but in tests.
    pub fn read(root: &Path) -> Topology {
        let folder = root.join("sys/devices/system/node");
        let Ok(entries) = fs::read_dir(&folder) else { return Topology::default() };
        let nodes = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
                let cpus = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
                Some((node, numbers(&cpus)))
            })
            .collect();
        Topology { nodes }
    }

    pub fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.keys().copied()
    }

    pub fn node_of_cpu(&self, cpu: u32) -> Option<u32> {
        self.nodes.iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(node, _)| *node)
    }

    pub fn cpus_of_node(&self, node: u32) -> Option<&BTreeSet<u32>> {
        self.nodes.get(&node)
    }

    /// The nodes of CPUs listed as the kernel does, such as [`Allowed::cpus`].
    pub fn nodes_of_cpus(&self, cpus: &str) -> BTreeSet<u32> {
        let cpus = numbers(cpus);
        let has = |own: &BTreeSet<u32>| !own.is_disjoint(&cpus);
        self.nodes.iter().filter(|(_, own)| has(own)).map(|(node, _)| *node).collect()
    }
}

/// The node a PCI device is on, by its address in any spelling (`3b:00.0`, `0000:3B:00.0`, `00000000:3B:00.0`).
/// Nothing where the firmware does not tell.
pub fn gpu_node(bus_id: &str) -> Option<u32> {
    gpu_node_at(Path::new("/"), bus_id)
}

pub fn gpu_node_at(root: &Path, bus_id: &str) -> Option<u32> {
    let path = root.join("sys/bus/pci/devices").join(pci_address(bus_id)?).join("numa_node");
    // -1 is what the firmware did not tell.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Addresses of the GPUs the NVIDIA driver has, in its own order.
pub fn gpu_bus_ids(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join("proc/driver/nvidia/gpus")) else { return Vec::new() };
    let mut addresses: Vec<String> =
        entries.filter_map(|entry| pci_address(entry.ok()?.file_name().to_str()?)).collect();
    addresses.sort();
    addresses
}

/// As sysfs spells it: NVML writes the domain with eight digits and hex digits large.
fn pci_address(bus_id: &str) -> Option<String> {
    let parts: Vec<&str> = bus_id.trim().split([':', '.']).collect();
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (domain, bus, device, function) = match parts.as_slice() {
        [domain, bus, device, function] => (number(domain)?, bus, device, function),
        [bus, device, function] => (0, bus, device, function),
        _ => return None,
    };
    let (bus, device, function) = (number(bus)?, number(device)?, number(function)?);
    (bus < 256 && device < 32 && function < 8)
        .then(|| format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

/// Bytes of a process's memory by node. Slow for a large process: ask a [`MemoryMeter`] where it is asked again and again.
pub fn nodes_of_memory(pid: u32) -> Option<BTreeMap<u32, u64>> {
    nodes_of_memory_at(Path::new("/"), pid)
}

pub fn nodes_of_memory_at(root: &Path, pid: u32) -> Option<BTreeMap<u32, u64>> {
    nodes_of_maps(File::open(root.join(format!("proc/{pid}/numa_maps"))).ok()?)
}

/// What the kernel says of a process's memory, for who may not open it.
pub fn open_memory_maps(pid: u32) -> Option<File> {
    File::open(format!("/proc/{pid}/numa_maps")).ok()
}

/// The same of [`nodes_of_memory`], of a file that is open.
pub fn nodes_of_maps(file: File) -> Option<BTreeMap<u32, u64>> {
    let mut nodes = BTreeMap::new();
    for line in BufReader::new(file.take(MAX_MAP_BYTES)).split(b'\n') {
        add_mapping(&mut nodes, &String::from_utf8_lossy(&line.ok()?));
    }
    Some(nodes)
}

/// `7f00 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4`. Names of files come escaped, without blanks.
fn add_mapping(nodes: &mut BTreeMap<u32, u64>, line: &str) {
    let fields = || line.split_ascii_whitespace().skip(2).filter_map(|field| field.split_once('='));
    let kib = fields().find(|(name, _)| *name == "kernelpagesize_kB").and_then(|(_, kib)| kib.parse().ok());
    let bytes = kib.unwrap_or(4_u64).saturating_mul(1024);
    for (name, pages) in fields() {
        let Some(Ok(node)) = name.strip_prefix('N').map(str::parse) else { continue };
        let Ok(pages) = pages.parse::<u64>() else { continue };
        let sum = nodes.entry(node).or_insert(0_u64);
        *sum = sum.saturating_add(pages.saturating_mul(bytes));
    }
}

/// The same, asked of the kernel at most once in 30 seconds a process.
#[derive(Debug, Default)]
pub struct MemoryMeter {
    read: HashMap<u32, (Instant, BTreeMap<u32, u64>)>,
}

impl MemoryMeter {
    pub fn of(&mut self, pid: u32) -> Option<&BTreeMap<u32, u64>> {
        if self.read.len() > MAX_PROCESSES {
            self.read.clear();
        }
        if self.read.get(&pid).is_none_or(|(read, _)| read.elapsed() >= ASK_EVERY) {
            match nodes_of_memory(pid) {
                Some(nodes) => self.read.insert(pid, (Instant::now(), nodes)),
                None => self.read.remove(&pid),
            };
        }
        self.read.get(&pid).map(|(_, nodes)| nodes)
    }

    /// Its number may be given to another.
    pub fn forget(&mut self, pid: u32) {
        self.read.remove(&pid);
    }
}

/// Where a process may run and have its memory, in lists as the kernel prints them (`0-7,16-23`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowed {
    pub cpus: Option<String>,
    pub mems: Option<String>,
}

impl Allowed {
    /// Of `/proc/PID/status`.
    pub(crate) fn parse(status: &str) -> Allowed {
        let of = |name: &str| {
            let list = status.lines().find_map(|line| line.strip_prefix(name))?.trim();
            (!list.is_empty()).then(|| list.to_string())
        };
        Allowed { cpus: of("Cpus_allowed_list:"), mems: of("Mems_allowed_list:") }
    }
}

/// Of a process; empty if it is gone.
pub fn allowed(pid: u32) -> Allowed {
    Allowed::parse(&Root::default().of_process(pid, "status").unwrap_or_default())
}

/// `0-3,8` as the numbers it stands for. A range larger than any host has is none.
fn numbers(list: &str) -> BTreeSet<u32> {
    const MAX: u32 = 1 << 16;
    let mut all = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
            && last < MAX
        {
            all.extend(first..=last);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn cpus_and_gpus_have_nodes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "sys/devices/system/node/node0/cpulist", "0-3,8\n");
        write(root, "sys/devices/system/node/node1/cpulist", "4-7\n");
        // Memory without CPUs, as GPUs of some hosts have.
        write(root, "sys/devices/system/node/node2/cpulist", "\n");
        write(root, "sys/devices/system/node/has_cpu", "0-1\n");
        write(root, "sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
        write(root, "sys/bus/pci/devices/0001:af:00.0/numa_node", "-1\n");
        fs::create_dir_all(root.join("proc/driver/nvidia/gpus/0000:3b:00.0")).unwrap();
        let topology = Topology::read(root);
        assert_eq!(topology.nodes().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(
            (topology.node_of_cpu(8), topology.node_of_cpu(5), topology.node_of_cpu(9)),
            (Some(0), Some(1), None)
        );
        assert_eq!(topology.cpus_of_node(1).unwrap().len(), 4);
        assert_eq!(topology.nodes_of_cpus("3-4"), BTreeSet::from([0, 1]));
        for address in ["3b:00.0", "0000:3b:00.0", "00000000:3B:00.0"] {
            assert_eq!(gpu_node_at(root, address), Some(1), "{address}");
        }
        for address in ["0001:af:00.0", "0000:00:00.0", "../../x", "", "0:0:0:0:0", "3b:00.9"] {
            assert_eq!(gpu_node_at(root, address), None, "{address}");
        }
        assert_eq!(gpu_bus_ids(root), ["0000:3b:00.0"]);
        assert_eq!(Topology::read(&root.join("absent")), Topology::default());
    }

    #[test]
    fn memory_is_summed_by_node() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/7/numa_maps",
            "7f00 default anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=4\n\
             7f10 bind:1 huge anon=2 N1=2 kernelpagesize_kB=2048\n\
             7f20 default file=/tmp/N0=9 mapped=1 N0=1 kernelpagesize_kB=4\n\
             7f30 default\nNonsense N0=x Nx=1 N0\n",
        );
        let nodes = nodes_of_memory_at(root.path(), 7).unwrap();
        assert_eq!(nodes, BTreeMap::from([(0, 3 * 4096), (1, 4096 + 2 * (2 << 20))]));
        assert_eq!(nodes_of_memory_at(root.path(), 8), None);
    }

    #[test]
    fn this_process_has_memory_and_is_asked_once() {
        let own = std::process::id();
        let mut meter = MemoryMeter::default();
        let Some(first) = meter.of(own).cloned() else { return };
        assert!(first.values().sum::<u64>() > 0);
        assert_eq!(meter.of(own), Some(&first));
        assert_eq!(meter.of(u32::MAX), None);
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(numbers("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert!(numbers("").is_empty() && numbers("0-4294967295").is_empty() && numbers("x-").is_empty());
        let allowed =
            Allowed::parse("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n");
        assert_eq!((allowed.cpus.as_deref(), allowed.mems.as_deref()), (Some("0-1"), Some("0")));
        assert_eq!(Allowed::parse(""), Allowed::default());
        assert!(super::allowed(std::process::id()).cpus.is_some());
    }
}
