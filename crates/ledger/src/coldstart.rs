//! First times: what makes the first calls of a process slow, and is over afterwards.

use crate::kernels::Kernels;
use crate::ops::Op;
use gpuwhy_model::{Call, ColdStart, Facts, Role};

/// Looking up a function that is loaded takes a few microseconds.
const LAZY_LOAD_NS: u64 = 50_000;
/// A first launch that takes no longer than this was like any other.
const FIRST_LAUNCH_NS: u64 = 100_000;

#[derive(Debug, Default)]
pub(crate) struct ColdStarts {
    launched: bool,
}

impl ColdStarts {
    pub(crate) fn note(&mut self, call: &Call, op: &Op, kernels: &Kernels, facts: &mut Facts) {
        let Some(event) = self.event(call, op.role) else { return };
        let name = match op.role {
            Role::ModuleLoad | Role::ContextCreate | Role::Jit => call.name.clone().unwrap_or_default(),
            _ => kernels.name_of(call.handle).to_string(),
        };
        facts.cold_starts.push(ColdStart {
            start_ns: call.start_ns,
            duration_ns: call.duration_ns,
            event: event.into(),
            op: call.op,
            pid: call.pid,
            tid: call.tid,
            cgroup_id: call.cgroup_id,
            name,
            bytes: call.bytes,
            ret: call.ret,
            stack_id: call.stack_id,
        });
    }

    fn event(&mut self, call: &Call, role: Role) -> Option<&'static str> {
        match role {
            Role::ContextCreate => Some("context"),
            Role::ModuleLoad if is_text(call.aux) => Some("jit"),
            Role::ModuleLoad => Some("module_load"),
            Role::Jit => Some("jit"),
            Role::FunctionName | Role::KernelFunction if call.duration_ns >= LAZY_LOAD_NS => {
                Some("lazy_load")
            }
            Role::Launch | Role::GraphLaunch if call.first => {
                let first_of_all = !std::mem::replace(&mut self.launched, true);
                (first_of_all || call.duration_ns >= FIRST_LAUNCH_NS).then_some("first_launch")
            }
            _ => None,
        }
    }
}

/// PTX is text and has to be compiled; ELF files and fat binaries begin with bytes that no text has.
fn is_text(first_bytes: u64) -> bool {
    first_bytes.to_le_bytes().iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::ops::Ops;
    use crate::testing::{PID, call, handle, ops};

    fn events(calls: &[Call]) -> Vec<(String, String)> {
        let (mut cold, mut kernels, mut names) = (ColdStarts::default(), Kernels::new(PID), Names::new());
        let (ops, mut facts) = (Ops::new(&ops()), Facts::default());
        for call in calls {
            kernels.named(call, &mut names);
            cold.note(call, ops.get(call.op), &kernels, &mut facts);
        }
        facts.cold_starts.into_iter().map(|cold| (cold.event, cold.name)).collect()
    }

    fn event(event: &str, name: &str) -> (String, String) {
        (event.into(), name.into())
    }

    #[test]
    fn code_as_text_is_compiled_and_binaries_are_loaded() {
        let load = |bytes: &[u8; 8]| Call {
            aux: u64::from_le_bytes(*bytes),
            name: Some("file".into()),
            ..call("cuModuleLoadData", 9)
        };
        let found = events(&[
            load(b"//\n// Ge"),
            load(b".version"),
            load(b"\x7fELF\x02\x01\x01\x33"),
            load(b"\x50\xed\x55\xba\x01\x00\x10\x00"),
            load(&[0; 8]),
            call("cuLinkComplete", 9),
            Call { ret: 2, ..call("cuCtxCreate", 9) },
        ]);
        let expected = ["jit", "jit", "module_load", "module_load", "module_load"];
        assert_eq!(found[..5], expected.map(|name| event(name, "file")));
        assert_eq!(found[5..], [event("jit", ""), event("context", "")]);
    }

    #[test]
    fn lookups_count_when_they_load() {
        let lookup = |name: &str, duration_ns| Call {
            name: Some(name.into()),
            duration_ns,
            ..handle("cuModuleGetFunction", 9, 0x50)
        };
        let found = events(&[lookup("_Z1av", LAZY_LOAD_NS - 1), lookup("_Z1bv", LAZY_LOAD_NS)]);
        assert_eq!(found, [event("lazy_load", "b()")]);
    }

    #[test]
    fn first_launches_count_when_slow_or_first_of_all() {
        let launch = |first, duration_ns| Call { first, duration_ns, ..call("cuLaunchKernel", 9) };
        let found = events(&[
            launch(false, FIRST_LAUNCH_NS),
            launch(true, 5),
            launch(true, 5),
            launch(true, FIRST_LAUNCH_NS),
        ]);
        assert_eq!(found, [event("first_launch", ""), event("first_launch", "")]);
    }
}
