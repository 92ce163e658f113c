//! What a probe is: a name, a BPF object and the functions or tracepoints it goes on.

use gpuwhy_model::{Family, Layer, OpId, OpInfo};

/// A row of the table.
#[derive(Debug)]
pub struct Probe {
    /// Folder, configuration key and docs anchor.
    pub name: &'static str,
    pub about: &'static str,
    pub(crate) object: &'static [u8],
    pub attach: Attach,
    /// The others stand on it: it is on whatever is asked for.
    pub always: bool,
    /// What one event of it costs the traced program, in words.
    pub cost: &'static str,
}

/// Where a probe goes.
#[derive(Debug)]
pub enum Attach {
    /// Kernel tracepoints, named by the program's section; always on.
    Tracepoints(&'static [&'static str]),
    /// Functions of libraries that traced processes map.
    Functions(&'static [Function]),
}

/// A library, known by its file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    CudaDriver,
    CudaRuntime,
}

impl Library {
    pub const ALL: [Library; 2] = [Library::CudaDriver, Library::CudaRuntime];

    /// Which library a file is, if any. Wheels carry names like `libcudart-d0da41ae.so.11.0`.
    pub fn of_file_name(name: &str) -> Option<Library> {
        let is = |stem: &str| {
            name.strip_prefix(stem).is_some_and(|rest| {
                rest.starts_with(".so") || (rest.starts_with('-') && rest.contains(".so"))
            })
        };
        if is("libcuda") {
            Some(Library::CudaDriver)
        } else if is("libcudart") {
            Some(Library::CudaRuntime)
        } else {
            None
        }
    }
}

/// Where an argument's value is found; numbers count from 1, 0 is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Args {
    pub bytes: u8,
    pub stream: u8,
    pub handle: u8,
    /// Bits of `enum rule_flags` in `bpf/call.h`.
    pub(crate) flags: u32,
}

/// One exported function.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    pub symbol: &'static str,
    pub library: Library,
    pub layer: Layer,
    pub family: Family,
    pub waits_for_gpu: bool,
    pub args: Args,
    /// A return value besides 0 that is no error.
    pub benign_ret: i32,
    /// Slower than this is kept until the agent has seen enough to say what is slow here.
    pub slow_ns: u64,
}

impl Function {
    pub fn op(&self) -> &'static str {
        op_of_symbol(self.symbol)
    }
}

/// The operation a function is: its symbol less version and per-thread-stream suffixes, which users never type.
pub fn op_of_symbol(symbol: &str) -> &str {
    ["_ptsz", "_ptds", "_v2", "_v3"]
        .iter()
        .fold(symbol, |name, suffix| name.strip_suffix(suffix).unwrap_or(name))
}

/// Every operation of the given probes, numbered from 1; spellings of one operation share a number.
pub fn op_infos(probes: &[&Probe]) -> Vec<OpInfo> {
    let mut ops: Vec<OpInfo> = Vec::new();
    for function in functions(probes) {
        if ops.iter().all(|op| op.name != function.op()) {
            ops.push(OpInfo {
                id: OpId(ops.len() as u16 + 1),
                name: function.op().to_string(),
                layer: function.layer,
                family: function.family,
                waits_for_gpu: function.waits_for_gpu,
            });
        }
    }
    ops
}

pub(crate) fn functions<'a>(probes: &'a [&Probe]) -> impl Iterator<Item = &'static Function> + 'a {
    probes.iter().flat_map(|probe| match probe.attach {
        Attach::Functions(functions) => functions.iter(),
        Attach::Tracepoints(_) => [].iter(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_their_file() {
        for (name, library) in [
            ("libcuda.so.1", Some(Library::CudaDriver)),
            ("libcuda.so.580.159.04", Some(Library::CudaDriver)),
            ("libcudart.so.13", Some(Library::CudaRuntime)),
            ("libcudart-d0da41ae.so.11.0", Some(Library::CudaRuntime)),
            ("libcudart_static.a", None),
            ("libcudadebugger.so.1", None),
            ("libcudnn.so.9", None),
        ] {
            assert_eq!(Library::of_file_name(name), library, "{name}");
        }
    }

    #[test]
    fn spellings_of_an_operation_share_its_number() {
        let ops = op_infos(crate::PROBES);
        let launches: Vec<_> = ops.iter().filter(|op| op.name == "cuLaunchKernel").collect();
        assert_eq!(launches.len(), 1);
        assert!(ops.len() < 256, "the kernel's table of operations has 256 rows");
        assert!(ops.iter().all(|op| !op.name.ends_with("_v2") && !op.name.contains("_pt")));
    }
}
