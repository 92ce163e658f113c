//! What the kernel's type information tells, read once: its typed tracepoints, and how one of them is called.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Typedef};
use std::collections::HashSet;
use std::sync::OnceLock;

struct KernelTypes {
    /// Names of typed tracepoints.
    tracepoints: HashSet<String>,
    /// How many arguments programs on a context switch get.
    switch_arguments: usize,
    can_keep_cpu: bool,
}

fn kernel_types() -> &'static KernelTypes {
    static KNOWN: OnceLock<KernelTypes> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let btf = Btf::from_vmlinux().ok();
        let function = |name: &str| btf.as_ref().and_then(|btf| btf.type_by_name::<Func<'_>>(name));
        KernelTypes {
            tracepoints: tracepoints(&std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default()),
            switch_arguments: btf.as_ref().and_then(|btf| arguments_of(btf, "sched_switch")).unwrap_or(0),
            can_keep_cpu: function("bpf_res_spin_unlock").is_some(),
        }
    })
}

/// From the names alone: going through all types takes several times as long, and nothing else is called like that.
fn tracepoints(btf: &[u8]) -> HashSet<String> {
    let word = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at + 4)?.try_into().ok()?) as usize);
    // struct btf_header: hdr_len is its second word, str_off and str_len the last two of six.
    let names = || {
        let from = word(4)? + word(16)?;
        std::str::from_utf8(btf.get(from..from + word(20)?)?).ok()
    };
    let found = names().unwrap_or_default().split("\0btf_trace_").skip(1);
    found.filter_map(|rest| rest.split('\0').next()).map(ToString::to_string).collect()
}

fn arguments_of(btf: &Btf<'_>, tracepoint: &str) -> Option<usize> {
    let typedef = btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}"))?;
    let prototype = Ptr::try_from(typedef.next_type()?).ok()?.next_type()?;
    // The first is the tracepoint's own data.
    Some(FuncProto::try_from(prototype).ok()?.iter().count().saturating_sub(1))
}

pub(super) fn has_tracepoint(name: &str) -> bool {
    kernel_types().tracepoints.contains(name)
}

/// Whether the context switch's tracepoint has its fourth argument (5.18).
pub(super) fn switch_has_state() -> bool {
    kernel_types().switch_arguments >= 4
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
pub(super) fn can_keep_cpu() -> bool {
    kernel_types().can_keep_cpu
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
        let btf = Btf::from_vmlinux().unwrap();
        let typed = (1..btf.len() as u32).filter_map(|id| {
            let typedef = btf.type_by_id::<Typedef<'_>>(id.into())?;
            Some(typedef.name()?.to_str()?.strip_prefix("btf_trace_")?.to_string())
        });
        assert_eq!(kernel_types().tracepoints, typed.collect());
    }
}
