//! What runs on this host: processes and who they belong to, the library files they map, the host's load. Reads
//! /proc, /sys and files; never runs anything of what it looks at.

mod candidates;
mod cgroup;
mod gpu;
mod mapped;
mod process;
mod python;
mod rank;
mod system;

pub use candidates::{Program, candidate_folders};
pub use cgroup::{Cgroup, container_id, processes_in};
pub use gpu::{driver_version, gpus};
pub use mapped::{CodeRange, MappedFile, code_ranges, mapped_files, mapped_files_of, open_mapped, pids};
pub use process::{describe, exists};
pub use python::python_processes;
pub use rank::{Rank, rank_of};
pub use system::{Load, LoadMeter, kernel_release, memory};
