//! Parts of a path in words: what was done, by whom, where.

use super::computing::computing;
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
        Cause::CpuSelf => {
            let frames = part.stack_id.and_then(|id| case.evidence.frames.get(&id));
            format!("{}{within}", frames.and_then(|frames| computing(frames)).unwrap_or("computing"))
        }
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

/// That removing a part saves little, as the GPU works meanwhile. `saves`: at least and at most.
pub(crate) fn hidden(class: Cause, ns: u64, saves: [u64; 2], busy_pct: Option<f64>) -> Option<&'static str> {
    /// The GPU must be busy for a good part of the loop to hide anything.
    const MIN_BUSY_PCT: f64 = 30.0;
    let is_hidden = busy_pct.is_some_and(|pct| pct >= MIN_BUSY_PCT) && saves[1] * 2 < ns;
    match class {
        // Launching is what the GPU works on, and what has no name may be anything.
        Cause::LaunchBound | Cause::Unknown => None,
        Cause::GpuWait => is_hidden.then_some("the GPU works meanwhile"),
        _ => is_hidden.then_some("hidden behind the GPU's work"),
    }
}

/// The operation in which most of a part's time was spent.
pub(crate) fn main_op<'a>(case: &Case<'a>, part: &Part) -> Option<&'a str> {
    let (id, _) = part.ops.iter().max_by_key(|(_, ns)| **ns)?;
    case.evidence.ops.values().find(|op| op.id == OpId(*id)).map(|op| op.name.as_str())
}
