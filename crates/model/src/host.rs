//! What the kernel did to traced threads, where it was worth telling one by one: long waits, disk requests, TCP
//! retransmits, out-of-memory kills.

use crate::{OpId, Part};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A wait of a traced thread that took long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitEvent {
    pub start_ns: u64,
    pub duration_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    /// The call the thread was in; [`OpId::NONE`] between calls.
    pub op: OpId,
    pub part: Part,
    /// 0 where nobody could be named.
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_comm: String,
    /// Where it had run before, and where it ran on.
    pub cpu: u32,
    pub target_cpu: u32,
    /// Memory node of the latter.
    pub node: i32,
    /// Of the futex, or of the page.
    pub address: u64,
    pub file: Option<FileRef>,
    pub socket: Option<Ends>,
    /// The system call it was in; nothing in a page fault or while it was runnable.
    pub syscall: Option<u32>,
    /// What ended it, where that could be told.
    #[serde(default)]
    pub woken_by: Option<WokenBy>,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WokenBy {
    /// A task that wanted to.
    Task,
    /// Its own timeout ran out.
    Timer,
    /// Another interrupt or softirq, as that of a disk or a network card.
    Interrupt,
}

impl WokenBy {
    pub const ALL: [WokenBy; 3] = [WokenBy::Task, WokenBy::Timer, WokenBy::Interrupt];

    /// The stable name, as in SQL.
    pub fn name(self) -> &'static str {
        match self {
            WokenBy::Task => "task",
            WokenBy::Timer => "timer",
            WokenBy::Interrupt => "interrupt",
        }
    }
}

/// A file as the kernel knows it; its name is looked up in the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    pub fd: i32,
    /// Of its file system: major and minor.
    pub device: (u32, u32),
    /// Nothing where it is on no block device.
    pub device_name: Option<String>,
    pub inode: u64,
    /// Nothing where the process had closed it or ended before it could be looked up.
    pub path: Option<String>,
}

/// The two ends of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ends {
    /// As `tcp`, `udp`, `unix`.
    pub protocol: String,
    pub local: Option<IpAddr>,
    pub remote: Option<IpAddr>,
    pub local_port: u16,
    pub remote_port: u16,
    /// As `ESTABLISHED`; empty for what is not TCP.
    pub state: String,
}

/// A disk request that took long or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoEvent {
    pub start_ns: u64,
    pub duration_ns: u64,
    /// Of it, before the device got it.
    pub queue_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    pub device: (u32, u32),
    /// As `vda`; nothing where the host does not say.
    pub device_name: Option<String>,
    pub sector: u64,
    pub bytes: u64,
    /// `read`, `write`, `flush`, `discard` or `other`.
    pub rw: String,
    pub ret: i32,
}

/// A segment that TCP had to send again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpEvent {
    pub time_ns: u64,
    /// Whose socket it is; 0 where nobody could be found.
    pub pid: u32,
    pub tid: u32,
    pub cgroup_id: u64,
    pub ends: Ends,
    pub inode: u64,
    pub seq: u32,
    pub bytes: u32,
    pub srtt_us: u32,
    pub retransmits: u32,
    /// Of the process that has the socket.
    pub rank: Option<i32>,
}

/// The kernel killed a process because memory had run out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomEvent {
    pub time_ns: u64,
    /// Who was killed.
    pub pid: u32,
    pub cgroup_id: u64,
    /// Who had asked for memory.
    pub by_pid: u32,
    pub by_tid: u32,
    pub by_comm: String,
}

/// A process that was behind waits of traced ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Neighbour {
    pub pid: u32,
    pub comm: String,
    pub cgroup_id: u64,
    pub cgroup: String,
    /// Whose it is, in one word.
    pub tenant: String,
    pub first_seen_ns: u64,
}

/// A followed thread, sampled between GPU calls or blocked in one: what it did, and where in its program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BetweenCalls {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    /// When a wait began; the moment itself for a thread that ran.
    pub since_ns: u64,
    pub part: Part,
    /// When its last call began; 0 of a thread that makes none.
    pub last_call_ns: u64,
    /// The call it is blocked in; [`OpId::NONE`] between calls.
    #[serde(default)]
    pub op: OpId,
    /// The time since the last look, for which this one stands.
    pub weight_ns: u64,
    pub stack_id: Option<i64>,
    /// Where its thread has its own data.
    #[serde(skip)]
    pub thread_pointer: u64,
}

impl BetweenCalls {
    /// It makes GPU calls, and is in none.
    pub fn is_between_calls(&self) -> bool {
        self.last_call_ns != 0 && self.op == OpId::NONE
    }
}

/// A followed thread that had a CPU when a timer interrupted it: what it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuSample {
    pub time_ns: u64,
    pub pid: u32,
    pub tid: u32,
    pub cpu: u32,
    /// The call it was in; none between calls.
    pub op: OpId,
    /// The timer's period, for which this sample stands.
    pub weight_ns: u64,
    /// The kernel ran on its behalf.
    pub in_kernel: bool,
    pub syscall: Option<u32>,
    /// It collected garbage for its interpreter; nothing where that is not known.
    pub collecting: Option<bool>,
    pub stack_id: Option<i64>,
    /// What its stack was sent as, until it has a number; see [`crate::RawStack`]. 0 for none.
    #[serde(skip)]
    pub stack_key: u64,
}

/// Where a followed thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    pub pid: u32,
    pub tid: u32,
    pub cpu: u32,
    /// Memory node nearest to that CPU.
    pub node: u32,
    /// Since it was first seen: changes of the CPU, and of the node.
    pub migrations: u64,
    pub node_migrations: u64,
}

/// Where a process's memory lies, and its GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlace {
    pub time_ns: u64,
    pub pid: u32,
    /// Bytes by memory node.
    pub nodes: Vec<(u32, u64)>,
    pub gpu: Option<u16>,
    pub gpu_node: Option<u32>,
}
