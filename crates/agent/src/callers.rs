//! Who called a driver function: the runtime library or somebody else, told by whose code the call returned to.

use gpuwhy_host::{CodeRange, code_ranges};
use gpuwhy_model::{Call, OpInfo, Via};
use gpuwhy_probes::Library;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Code the map does not know is looked for again, but not more often than this.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// Processes remembered; beyond it all are forgotten and read anew.
const MOST_PROCESSES: usize = 256;

/// The code of traced processes.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    processes: HashMap<u32, Code>,
}

#[derive(Debug)]
struct Code {
    ranges: Vec<CodeRange>,
    read: Instant,
}

impl Callers {
    /// Fills in how each driver call was made.
    pub(crate) fn tell_via(&mut self, calls: &mut [Call], ops: &[OpInfo]) {
        for call in calls {
            let driver = ops.iter().any(|op| op.id == call.op && is_driver(&op.name));
            if driver {
                call.via = self.via(call.pid, call.caller);
            }
        }
    }

    fn via(&mut self, pid: u32, address: u64) -> Option<Via> {
        if self.processes.len() > MOST_PROCESSES {
            self.processes.clear();
        }
        let code = self
            .processes
            .entry(pid)
            .or_insert_with(|| Code { ranges: code_ranges(pid), read: Instant::now() });
        if find(&code.ranges, address).is_none() && code.read.elapsed() >= REFRESH_EVERY {
            *code = Code { ranges: code_ranges(pid), read: Instant::now() };
        }
        let range = find(&code.ranges, address)?;
        let name = range.path.rsplit('/').next().unwrap_or_default();
        match Library::of_file_name(name) {
            Some(Library::CudaRuntime) => Some(Via::Runtime),
            _ => Some(Via::Direct),
        }
    }
}

/// The driver's functions are `cuX`, the runtime's `cudaX`.
fn is_driver(op: &str) -> bool {
    op.starts_with("cu") && !op.starts_with("cuda")
}

fn find(ranges: &[CodeRange], address: u64) -> Option<&CodeRange> {
    ranges.iter().find(|range| (range.start..range.end).contains(&address))
}
