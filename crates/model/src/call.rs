//! Calls: the kept ones in full, and the exact sums over all of them.

use crate::{Blame, Histogram, OpId};
use serde::{Deserialize, Serialize};

/// Why a call was kept in full. Calls that are not kept are still counted in [`CallWindow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// It returned an error.
    Error,
    /// It took longer than its operation's limit at that time.
    Slow,
    /// It was drawn at random; only these rows are an unbiased sample.
    Sample,
    /// Its operation was called so seldom in that second that every call was kept.
    Rare,
    /// Everything was asked for.
    #[default]
    All,
    /// Only the ledger needs it (an allocation, a name, a node of a graph): it is no row of its own.
    State,
}

impl Kept {
    pub fn name(self) -> &'static str {
        match self {
            Kept::Error => "error",
            Kept::Slow => "slow",
            Kept::Sample => "sample",
            Kept::Rare => "rare",
            Kept::All => "all",
            Kept::State => "state",
        }
    }
}

/// How a driver function was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By the runtime library, on behalf of the program.
    Runtime,
    /// By the program or a library above the runtime, straight into the driver.
    Direct,
}

impl Via {
    pub fn name(self) -> &'static str {
        match self {
            Via::Runtime => "runtime",
            Via::Direct => "direct",
        }
    }
}

/// Where the bytes of a copy went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    /// Between two devices.
    Peer,
    /// The library finds it out from the addresses, and nobody has told.
    Unknown,
}

impl Direction {
    /// In the order of `enum direction` in `bpf/rule.h`, less its first: no copy at all.
    pub const ALL: [Direction; 6] = [
        Direction::HostToHost,
        Direction::HostToDevice,
        Direction::DeviceToHost,
        Direction::DeviceToDevice,
        Direction::Peer,
        Direction::Unknown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Direction::HostToHost => "host_to_host",
            Direction::HostToDevice => "host_to_device",
            Direction::DeviceToHost => "device_to_host",
            Direction::DeviceToDevice => "device_to_device",
            Direction::Peer => "peer",
            Direction::Unknown => "unknown",
        }
    }
}

/// Grid and block of a kernel launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

/// One call, kept in full.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Call {
    /// When it began, unix time.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub op: OpId,
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    pub kept: Kept,
    /// N where the call was drawn into the 1-in-N sample, else 0: rows with N stand for N calls each.
    pub sample_weight: u32,
    pub ret: i32,
    pub bytes: u64,
    pub stream: u64,
    /// The function, pointer or handle the call was about.
    pub handle: u64,
    /// A second one, see [`crate::Role`].
    #[serde(default)]
    pub aux: u64,
    /// The name a call gave, see [`crate::Role`].
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub direction: Option<Direction>,
    /// Number of the capture the call became part of, instead of running; 0 for none.
    #[serde(default)]
    pub capture: u64,
    /// The device the thread had chosen, as its process counts them; nothing where that was not seen.
    #[serde(default)]
    pub device: Option<u16>,
    /// The library file it was made in: the run's number of it, see [`crate::LibraryInfo`]; 0 where unknown.
    #[serde(default)]
    pub library: u16,
    /// The first launch of this function by its process.
    #[serde(default)]
    pub first: bool,
    /// Address of the instruction the call returned to.
    pub caller: u64,
    /// Nothing for functions of the runtime itself, and where the caller's code could not be told.
    #[serde(default)]
    pub via: Option<Via>,
    pub launch: Option<Launch>,
    pub stack_id: Option<i64>,
    /// What its stack was sent as, until it has a number; see [`crate::RawStack`].
    #[serde(skip)]
    pub stack_key: u64,
    pub blame: Blame,
}

/// All calls of one operation by one thread in one window, kept or not: exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallWindow {
    pub window_start_ns: u64,
    pub window_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub op: OpId,
    /// Copies are summed by where they went.
    #[serde(default)]
    pub direction: Option<Direction>,
    pub count: u64,
    pub errors: u64,
    pub kept: u64,
    pub bytes: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub blame: Blame,
    pub hist: Histogram,
    /// What being watched cost the thread, as far as known.
    #[serde(default)]
    pub cost_ns: u64,
    /// What traps cost it that counted nothing, before and after slices.
    #[serde(default)]
    pub beside_ns: u64,
    /// The number of the slice it was counted in, as the kernel has it.
    #[serde(skip)]
    pub slice: u8,
}
