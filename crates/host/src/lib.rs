//! What runs on this host: processes and who they belong to, the library files they map, the host's load, its
//! GPUs and RDMA ports. Reads /proc, /sys, files and the GPU driver's library; never runs anything of what it looks at.

mod candidates;
mod cgroup;
mod gpu;
mod mapped;
mod nvml;
mod process;
mod python;
mod rank;
mod rdma;
mod system;

pub use candidates::{Program, candidate_folders};
pub use cgroup::{Cgroup, container_id, processes_in};
pub use gpu::{driver_version, gpus, nvidia_device_majors};
pub use mapped::{CodeRange, MappedFile, code_ranges, mapped_files, mapped_files_of, open_mapped, pids};
pub use nvml::GpuMeter;
pub use process::{describe, exists};
pub use python::python_processes;
pub use rank::{Rank, rank_of};
pub use rdma::RdmaMeter;
pub use system::{Load, LoadMeter, kernel_release, memory};
