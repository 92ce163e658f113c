//! The probes and the loader behind them. A probe is data: a row of [`PROBES`] and a folder with its BPF program;
//! nothing outside `load` names libbpf, and nothing outside this crate knows the records' bytes.

mod allocator;
mod call;
mod cpu;
mod cuda;
mod driver;
mod function;
#[doc(hidden)]
pub mod fuzz;
mod hip;
mod inflight;
mod io;
mod irq;
mod layout;
mod load;
mod mappings;
mod mem;
mod memory;
mod nccl;
mod probe;
mod process;
mod raw;
mod rdma;
mod sched;
mod stack;
mod stream;
mod tcp;
mod wait_event;
mod xid;

pub use allocator::return_freed_memory;
pub use driver::Device;
pub use function::{Function, op_of_symbol};
pub use layout::{CommunicatorLayout, FUNCTION_NAME_OFFSET};
pub use load::{
    Budget, EmptyProbe, Engine, Entry, Features, Flavour, Hazard, LibraryFile, LoadError, ProgramClock,
    ProgramStats, Scope, Settings, Sites, SliceSetting, StackMode, TrapCost, build_id, default_probes,
    hazards, now_ns, programs_loaded, trap_cost,
};
pub use mappings::{Mapped, MappingWatch};
pub use memory::{text_at, word_at};
pub use probe::{Attach, Library, Probe, When, op_infos};

/// Every probe there is. Adding one is a folder and a line here.
pub static PROBES: &[&Probe] = &[
    &process::PROBE,
    &inflight::PROBE,
    &sched::PROBE,
    &cpu::PROBE,
    &mem::PROBE,
    &irq::PROBE,
    &io::PROBE,
    &tcp::PROBE,
    &cuda::PROBE,
    &hip::PROBE,
    &nccl::PROBE,
    &rdma::PROBE,
    &driver::PROBE,
    &xid::PROBE,
];

#[cfg(test)]
mod tests {
    use super::PROBES;
    use std::collections::BTreeSet;

    #[test]
    fn every_probe_folder_is_in_the_table() {
        let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let folders: BTreeSet<String> = std::fs::read_dir(src)
            .unwrap()
            .filter_map(Result::ok)
            .filter(|entry| {
                let name = entry.file_name().into_string().unwrap();
                entry.path().join(format!("{name}.bpf.c")).exists()
            })
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        let table: BTreeSet<String> = PROBES.iter().map(|probe| probe.name.to_string()).collect();
        assert_eq!(folders, table);
    }
}
