//! What the kernel's type information tells, read once: its typed tracepoints, and how one of them is called.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Typedef};
use std::collections::HashMap;
use std::sync::OnceLock;

/// By the tracepoint's name: how many arguments its programs get.
fn tracepoints() -> &'static HashMap<String, usize> {
    static KNOWN: OnceLock<HashMap<String, usize>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let Ok(btf) = Btf::from_vmlinux() else { return HashMap::new() };
        (1..btf.len() as u32)
            .filter_map(|id| {
                let typedef = btf.type_by_id::<Typedef<'_>>(id.into())?;
                let name = typedef.name()?.to_str()?.strip_prefix("btf_trace_")?.to_string();
                let prototype = Ptr::try_from(typedef.next_type()?).ok()?.next_type()?;
                // The first is the tracepoint's own data.
                let arguments = FuncProto::try_from(prototype).ok()?.iter().count().saturating_sub(1);
                Some((name, arguments))
            })
            .collect()
    })
}

pub(super) fn has_tracepoint(name: &str) -> bool {
    tracepoints().contains_key(name)
}

/// Whether the context switch's tracepoint has its fourth argument (5.18).
pub(super) fn switch_has_state() -> bool {
    tracepoints().get("sched_switch").is_some_and(|arguments| *arguments >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_tracepoints_are_found() {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return;
        }
        assert!(has_tracepoint("sched_switch") && !has_tracepoint("no_such_tracepoint"));
    }
}
