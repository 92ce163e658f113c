//! Who called a driver function: the runtime library or somebody else, told by whose code the call returned to.

use gpuwhy_model::{Call, Layer, OpInfo, Via};
use gpuwhy_probes::Library;
use gpuwhy_proc::{Mapping, Maps};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Code the map does not know is looked for again, but not more often than this.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// Processes remembered; beyond it all are forgotten and read anew.
const MAX_PROCESSES: usize = 256;

/// The code of traced processes.
#[derive(Debug)]
pub(crate) struct Callers {
    /// By operation number.
    is_driver: Vec<bool>,
    processes: HashMap<u32, Code>,
    /// The latest answer: a loop asks the same again and again.
    latest: Option<(u32, u64, Via)>,
}

#[derive(Debug)]
struct Code {
    mappings: Vec<Mapping>,
    read: Instant,
}

impl Callers {
    pub(crate) fn new(ops: &[OpInfo]) -> Callers {
        let mut is_driver = vec![false; ops.iter().map(|op| usize::from(op.id.0) + 1).max().unwrap_or(0)];
        for op in ops {
            // The driver's functions are `cuX`, the runtime's `cudaX`.
            is_driver[usize::from(op.id.0)] = op.layer == Layer::Cuda && !op.name.starts_with("cuda");
        }
        Callers { is_driver, processes: HashMap::new(), latest: None }
    }

    /// Reads the code of a process that has just made its first call: it may have ended when its calls are completed.
    pub(crate) fn read(&mut self, pid: u32) {
        self.latest = None;
        self.forget_too_many();
        self.processes.insert(pid, Code::of(pid));
    }

    fn forget_too_many(&mut self) {
        if self.processes.len() > MAX_PROCESSES {
            self.processes.clear();
        }
    }

    /// Fills in how each driver call was made.
    pub(crate) fn report_via(&mut self, calls: &mut [Call]) {
        for call in calls {
            if !self.is_driver.get(usize::from(call.op.0)).is_some_and(|driver| *driver) {
                continue;
            }
            call.via = match self.latest {
                Some((pid, caller, via)) if (pid, caller) == (call.pid, call.caller) => Some(via),
                _ => self.via(call.pid, call.caller),
            };
            self.latest = call.via.map(|via| (call.pid, call.caller, via));
        }
    }

    fn via(&mut self, pid: u32, address: u64) -> Option<Via> {
        self.forget_too_many();
        let code = self.processes.entry(pid).or_insert_with(|| Code::of(pid));
        if code.at(address).is_none() && code.read.elapsed() >= REFRESH_EVERY {
            *code = Code::of(pid);
        }
        match Library::of_file_name(code.at(address)?.name()) {
            Some(Library::CudaRuntime) => Some(Via::Runtime),
            _ => Some(Via::Direct),
        }
    }
}

impl Code {
    /// All executable memory of a process; none if it is gone.
    fn of(pid: u32) -> Code {
        let maps = Maps::of(pid);
        let mappings = maps.iter().flat_map(Maps::iter).filter(|mapping| mapping.executable).collect();
        Code { mappings, read: Instant::now() }
    }

    fn at(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| mapping.contains(address))
    }
}
