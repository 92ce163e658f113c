//! What the kernel's type information tells, read once: its typed tracepoints, and how one of them is called.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};
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

/// The first two numbers of the running kernel's; zeros where it does not say.
pub(super) fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version_in(&release)
}

fn version_in(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.trim().parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Whether a program may keep the CPU and call global functions meanwhile (6.15, as this function).
pub(super) fn lets_keep_cpu() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>("bpf_res_spin_unlock").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_numbers() {
        assert_eq!(version_in("6.12.115+deb12-amd64\n"), (6, 12));
        assert_eq!(version_in("7.0-rc3"), (7, 0));
        assert_eq!(version_in(""), (0, 0));
    }

    #[test]
    fn this_kernels_tracepoints_are_found() {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            return;
        }
        assert!(has_tracepoint("sched_switch") && !has_tracepoint("no_such_tracepoint"));
    }
}
