//! Processes and what happened to them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessEventKind {
    /// It made its first traced call.
    Seen,
    Fork,
    Thread,
    Exec,
    Exit,
    ThreadExit,
}

impl ProcessEventKind {
    pub fn name(self) -> &'static str {
        match self {
            ProcessEventKind::Seen => "process_seen",
            ProcessEventKind::Fork => "process_fork",
            ProcessEventKind::Thread => "thread_start",
            ProcessEventKind::Exec => "process_exec",
            ProcessEventKind::Exit => "process_exit",
            ProcessEventKind::ThreadExit => "thread_exit",
        }
    }
}

/// Something that happened to a traced process or thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEvent {
    pub time_ns: u64,
    pub kind: ProcessEventKind,
    pub pid: u32,
    pub tid: u32,
    /// The new process or thread of a fork; else 0.
    pub child: u32,
    pub exit_code: i32,
    pub cgroup_id: u64,
    pub comm: String,
    /// The process is followed for its waits: its calls were not asked for, or it has made none so far.
    #[serde(default)]
    pub waits_only: bool,
}

/// What is known of a traced process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub pid: u32,
    pub parent_pid: u32,
    pub start_ns: u64,
    pub end_ns: Option<u64>,
    pub exit_code: Option<i32>,
    pub comm: String,
    /// Words apart by spaces; by zeros until secrets have been masked.
    pub cmdline: String,
    pub exe: String,
    pub uid: u32,
    pub cgroup_id: u64,
    pub cgroup: String,
    pub container_id: Option<String>,
    pub rank: Option<i32>,
    pub local_rank: Option<i32>,
    pub world_size: Option<i32>,
    pub local_world_size: Option<i32>,
    pub node_rank: Option<i32>,
    /// Who told rank and size: a launcher's name, or `communicator`.
    pub rank_source: Option<String>,
    /// `slurm`, `pbs`, `lsf`, `flux`, `ecs`, `kubernetes`, `ray` or `torchelastic`.
    pub job_system: Option<String>,
    pub job_id: Option<String>,
    pub job_step: Option<String>,
    pub job_name: Option<String>,
    pub job_user: Option<String>,
    /// Queue, partition or cluster.
    pub job_queue: Option<String>,
    pub pod: Option<String>,
    pub namespace: Option<String>,
    /// The service or scope of systemd it is in.
    pub unit: Option<String>,
    /// In one word, whose it is.
    pub tenant: String,
    pub cpus_allowed: Option<String>,
    pub mems_allowed: Option<String>,
    /// What is known of its container.
    pub container: Option<Container>,
}

/// A container that traced processes run in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    pub container_id: String,
    pub runtime: Option<String>,
    pub name: Option<String>,
    pub image: Option<String>,
    pub pod: Option<String>,
    pub namespace: Option<String>,
    pub pod_uid: Option<String>,
    pub qos: Option<String>,
    pub labels: BTreeMap<String, String>,
}
