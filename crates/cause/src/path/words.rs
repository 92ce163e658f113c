//! Parts of a path in words: what was done, by whom, where.

use super::{Key, Part};
use crate::case::Case;
use gpuwhy_model::{Cause, OpId};

/// As `python3[4242]`, or `pt_autograd_0 of python3[4242]` for another thread than the main one.
pub(crate) fn who(case: &Case<'_>, tid: u32) -> String {
    let thread = case.evidence.activity.threads.get(&tid);
    let pid = thread.map_or(tid, |thread| thread.pid);
    let comm = thread.map(|thread| thread.comm.as_str()).filter(|comm| !comm.is_empty());
    match comm {
        Some(comm) if pid != tid => format!("{comm} ({tid}) of {}", case.name(pid)),
        None if pid != tid => format!("thread {tid} of {}", case.name(pid)),
        _ => case.name(pid),
    }
}

/// What a part is, without who and where: `asleep in fetch`.
pub(crate) fn describe(case: &Case<'_>, key: &Key, part: &Part) -> String {
    let function = key.function.as_ref().map(|(_, name)| name.rsplit('.').next().unwrap_or(name));
    let within = function.map_or_else(String::new, |name| format!(" in {name}"));
    let object = part
        .objects
        .iter()
        .max_by_key(|(_, ns)| **ns)
        .and_then(|(at, _)| case.evidence.activity.objects.get(*at as usize));
    let on = object.map_or_else(String::new, |object| format!(" ({object})"));
    let call = main_op(case, part).map_or_else(String::new, |op| format!(" in {op}"));
    match key.class {
        Cause::SelfSleep => format!("asleep{within}"),
        Cause::CpuSelf => format!("computing{within}"),
        Cause::PythonGc => format!("collecting garbage{within}"),
        Cause::LaunchBound => "Python and launching".into(),
        Cause::GpuWait if part.launches => format!("waiting for room in the GPU's queue{call}"),
        Cause::GpuWait => format!("waiting for the GPU{call}"),
        Cause::CopyPcie => format!("copying{call}{within}"),
        Cause::GpuAlloc => format!("allocating GPU memory{call}"),
        Cause::GpuColdstart => format!("loading and compiling{within}"),
        Cause::GraphRecapture => format!("capturing graphs{within}"),
        Cause::IoBlock => format!("waiting for a disk{on}{within}"),
        Cause::IoFile => format!("reading and writing files{on}{within}"),
        Cause::NetWait => format!("waiting for a peer{on}{within}"),
        Cause::LockFutex => format!("waiting for a lock{within}"),
        Cause::PythonGil => format!("waiting for Python's GIL{within}"),
        Cause::ProcWait => format!("waiting for a child process{within}"),
        Cause::CpuPreempted => "ready, but another task had the CPU".into(),
        Cause::CpuThrottled => "stopped by its CPU quota".into(),
        Cause::MemFault => format!("waiting for memory pages{within}"),
        Cause::MemReclaim => "waiting while the kernel freed memory".into(),
        Cause::Unknown => "unknown".into(),
        other => other.about().into(),
    }
}

/// The operation in which most of a part's time was spent.
pub(crate) fn main_op<'a>(case: &Case<'a>, part: &Part) -> Option<&'a str> {
    let (id, _) = part.ops.iter().max_by_key(|(_, ns)| **ns)?;
    case.evidence.ops.values().find(|op| op.id == OpId(*id)).map(|op| op.name.as_str())
}
