//! What a probe is: a name, a BPF object and the functions, device files or tracepoints it goes on.

use crate::function::Function;
use gpuwhy_model::{OpId, OpInfo};

/// A row of the table.
#[derive(Debug)]
pub struct Probe {
    /// Folder, configuration key and docs anchor.
    pub name: &'static str,
    pub about: &'static str,
    pub(crate) object: &'static [u8],
    pub attach: Attach,
    pub when: When,
    /// The probe that follows the threads it is about: where this one is asked for, that one is on, too.
    pub needs: Option<&'static str>,
    /// What one event of it costs the traced program, in words.
    pub cost: &'static str,
}

/// When a probe is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The others stand on it: whatever is asked for.
    Always,
    /// Unless others are asked for by name.
    Default,
    /// Only when it is asked for.
    Asked,
}

/// Where a probe goes.
#[derive(Debug)]
pub enum Attach {
    /// Kernel tracepoints, named by the program's section.
    Tracepoints(&'static [&'static str]),
    /// Functions of libraries that traced processes map.
    Functions(&'static [Function]),
    /// System calls on device files, through tracepoints.
    Devices(&'static [Function]),
}

impl Attach {
    pub fn functions(&self) -> &'static [Function] {
        match self {
            Attach::Functions(functions) | Attach::Devices(functions) => functions,
            Attach::Tracepoints(_) => &[],
        }
    }
}

/// A library, known by its file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    CudaDriver,
    CudaRuntime,
    Hip,
    Nccl,
    Verbs,
    /// No library: the kernel.
    Kernel,
}

impl Library {
    /// Those that files are.
    pub const ALL: [Library; 5] =
        [Library::CudaDriver, Library::CudaRuntime, Library::Hip, Library::Nccl, Library::Verbs];

    pub fn name(self) -> &'static str {
        match self {
            Library::CudaDriver => "libcuda",
            Library::CudaRuntime => "libcudart",
            Library::Hip => "libamdhip64",
            Library::Nccl => "libnccl",
            Library::Verbs => "libibverbs",
            Library::Kernel => "kernel",
        }
    }

    /// The probe its functions are of.
    pub fn probe(self) -> &'static str {
        match self {
            Library::CudaDriver | Library::CudaRuntime => "cuda",
            Library::Hip => "hip",
            Library::Nccl => "nccl",
            Library::Verbs => "rdma",
            Library::Kernel => "driver",
        }
    }

    /// Which library a file is, if any. Wheels carry names like `libcudart-d0da41ae.so.11.0`.
    pub fn of_file_name(name: &str) -> Option<Library> {
        let is = |stem: &str| {
            name.strip_prefix(stem).is_some_and(|rest| {
                rest.starts_with(".so") || (rest.starts_with('-') && rest.contains(".so"))
            })
        };
        let found = Library::ALL.into_iter().find(|library| is(library.name()));
        // AMD's collective library has NCCL's interface.
        found.or_else(|| (is("librccl") || may_contain_nccl(name)).then_some(Library::Nccl))
    }
}

/// Files that some builds link the collective library into, and others do not.
pub(crate) fn may_contain_nccl(file_name: &str) -> bool {
    ["libtorch_cuda.so", "libtorch_hip.so", "libtorch_cuda_cpp.so", "libtensorflow_cc.so", "libtorch.so"]
        .iter()
        .any(|name| file_name.starts_with(name))
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
                role: function.role,
            });
        }
    }
    ops
}

pub(crate) fn functions<'a>(probes: &'a [&Probe]) -> impl Iterator<Item = &'static Function> + 'a {
    probes.iter().flat_map(|probe| probe.attach.functions())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::cuda::{RULE_HANDLE_OUT, RULE_STATE};
    use gpuwhy_model::{Family, Role};

    #[test]
    fn libraries_are_told_by_their_file() {
        for (name, library) in [
            ("libcuda.so.1", Some(Library::CudaDriver)),
            ("libcuda.so.580.159.04", Some(Library::CudaDriver)),
            ("libcudart.so.13", Some(Library::CudaRuntime)),
            ("libcudart-d0da41ae.so.11.0", Some(Library::CudaRuntime)),
            ("libnccl.so.2", Some(Library::Nccl)),
            ("librccl.so.1.0", Some(Library::Nccl)),
            ("libtorch_cuda.so", Some(Library::Nccl)),
            ("libamdhip64.so.6", Some(Library::Hip)),
            ("libibverbs.so.1", Some(Library::Verbs)),
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
        assert!(ops.iter().all(|op| !op.name.ends_with("_v2") && !op.name.contains("_pt")));
    }

    #[test]
    fn functions_of_one_operation_agree() {
        let all: Vec<&Function> = functions(crate::PROBES).collect();
        assert!(all.len() < 1024, "the kernel's table of rules has 1024 rows");
        for function in &all {
            let first = all.iter().find(|other| other.op() == function.op()).unwrap();
            assert_eq!(
                (function.layer, function.family, function.role, function.waits_for_gpu),
                (first.layer, first.family, first.role, first.waits_for_gpu),
                "{}",
                function.symbol
            );
            let twice = all.iter().filter(|other| other.symbol == function.symbol).count();
            assert_eq!(twice, 1, "{} is listed twice", function.symbol);
        }
    }

    #[test]
    fn the_ledger_gets_every_allocation() {
        for function in functions(crate::PROBES) {
            let state = function.args.flags & RULE_STATE != 0;
            if matches!(function.family, Family::Alloc | Family::Free) && function.role != Role::None {
                assert!(state, "{}", function.symbol);
            }
            if function.role == Role::AllocDevice {
                assert!(function.args.flags & RULE_HANDLE_OUT != 0, "{}", function.symbol);
            }
        }
    }
}
