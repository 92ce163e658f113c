//! What runs on this host: processes and who they belong to, the library files they map, the host's load, its
//! GPUs and RDMA ports. Reads /proc, /sys, files and the GPU driver's library; never runs anything of what it looks at.

mod candidates;
mod cgroup;
mod cgroup_names;
mod container;
mod cri;
mod environment;
mod foresight;
mod gpu;
mod job;
mod lookup;
mod mapped;
mod mounts;
pub mod numa;
mod nvml;
mod owner;
mod pod;
mod process;
mod python;
mod rank;
mod rdma;
mod root;
mod socket;
mod system;
mod tenant;
mod users;

pub use candidates::{Program, candidate_folders};
pub use cgroup::{Cgroup, processes_in};
pub use cgroup_names::CgroupNames;
pub use foresight::{Hint, foreseen};
pub use gpu::{driver_version, gpus, nvidia_device_majors};
pub use lookup::Lookup;
pub use mapped::{mapped_file, mapped_files, mapped_inodes, pids};
pub use nvml::GpuMeter;
pub use owner::Owner;
pub use process::{describe, describe_at, exists, runs, user_of};
pub use python::python_processes;
pub use rank::Rank;
pub use rdma::RdmaMeter;
pub use root::Root;
pub use system::{Load, LoadMeter, kernel_release, memory};
pub use tenant::tenant_of_cgroup;
