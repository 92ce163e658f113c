//! What running code was doing, from its samples: launching, computing for itself, collecting garbage, waiting for the GPU.

use crate::activity::{Activity, Syscall, ThreadSample};
use crate::evidence::Evidence;
use gpuwhy_model::{Cause, Family, Frame, FrameKind, OpId, OpInfo, Part, Role, is_of_library};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Looks at samples with what the rest of the trace tells about their lines.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    evidence: &'a Evidence,
    ops: HashMap<OpId, &'a OpInfo>,
    /// Lines from which GPU calls were made, directly or through others: file, line.
    launching: BTreeSet<(&'a str, u32)>,
    /// On-CPU samples of each thread in order.
    samples: BTreeMap<u32, Vec<&'a ThreadSample>>,
    waiting: BTreeMap<u32, Vec<&'a ThreadSample>>,
}

impl<'a> Running<'a> {
    pub(crate) fn new(evidence: &'a Evidence, activity: &'a Activity) -> Running<'a> {
        let ops: HashMap<OpId, &OpInfo> = evidence.ops.values().map(|op| (op.id, op)).collect();
        let mut launching = BTreeSet::new();
        let is_work = |op: &str| evidence.ops.get(op).is_some_and(|op| is_work(op.family));
        for site in evidence.sites.iter().filter(|site| is_work(&site.op)) {
            launching.extend(lines(evidence, site.stack_id));
        }
        let (mut samples, mut waiting): (BTreeMap<u32, Vec<_>>, BTreeMap<u32, Vec<_>>) = Default::default();
        for sample in &activity.samples {
            let of_part = if sample.part == Part::OnCpu { &mut samples } else { &mut waiting };
            of_part.entry(sample.tid).or_default().push(sample);
            if ops.get(&sample.op).is_some_and(|op| is_work(&op.name)) {
                launching.extend(sample.stack_id.into_iter().flat_map(|id| lines(evidence, id)));
            }
        }
        for all in samples.values_mut().chain(waiting.values_mut()) {
            all.sort_by_key(|sample| sample.time_ns);
        }
        Running { evidence, ops, launching, samples, waiting }
    }

    pub(crate) fn on_cpu(&self, tid: u32, start_ns: u64, end_ns: u64) -> &[&'a ThreadSample] {
        within(self.samples.get(&tid), start_ns, end_ns)
    }

    pub(crate) fn waiting(&self, tid: u32, start_ns: u64, end_ns: u64) -> &[&'a ThreadSample] {
        within(self.waiting.get(&tid), start_ns, end_ns)
    }

    pub(crate) fn op(&self, op: OpId) -> Option<&'a OpInfo> {
        self.ops.get(&op).copied()
    }

    /// What a running thread did at that moment. `calls`: it makes GPU calls.
    pub(crate) fn class(&self, sample: &ThreadSample, calls: bool) -> Cause {
        if sample.in_gc {
            return Cause::PythonGc;
        }
        if let Some(op) = self.op(sample.op) {
            return class_of_op(op);
        }
        let frames = self.frames(sample.stack_id);
        if frames.iter().any(|frame| is_of_compiler(frame)) {
            return Cause::GpuColdstart;
        }
        if matches!(sample.syscall, Syscall::Read | Syscall::Write) {
            return Cause::IoFile;
        }
        let mut python = frames.iter().filter(|frame| frame.kind == FrameKind::Python).peekable();
        if python.peek().is_none() {
            // The thread of a backward pass has no Python of its own: it launches.
            return if calls { Cause::LaunchBound } else { Cause::CpuSelf };
        }
        // The innermost line decides whether it belongs to launching: one that never leads to a call is the program's own
        // computing. Frames of torch between two launches are part of launching where the program's line above them is.
        let own = python.clone().find(|frame| is_own(frame)).or_else(|| python.next());
        let launches = own.and_then(key).is_some_and(|line| self.launching.contains(&line));
        if launches && calls && innermost_is_launching(frames) { Cause::LaunchBound } else { Cause::CpuSelf }
    }

    pub(crate) fn frames(&self, stack_id: Option<i64>) -> &'a [Frame] {
        stack_id.and_then(|id| self.evidence.frames.get(&id)).map_or(&[], Vec::as_slice)
    }
}

/// On a line that launches, code of another package or of the program itself may compute as well: a tokenizer called in the
/// same statement. Frames of torch, and the line itself, belong to launching.
fn innermost_is_launching(frames: &[Frame]) -> bool {
    let Some(innermost) = frames.iter().find(|frame| frame.kind == FrameKind::Python) else { return true };
    let file = innermost.file.as_deref().unwrap_or_default();
    is_own(innermost)
        || ["/torch/", "/triton/", "/transformers/", "/vllm/"].iter().any(|part| file.contains(part))
}

fn within<'b, 'a>(
    all: Option<&'b Vec<&'a ThreadSample>>,
    start_ns: u64,
    end_ns: u64,
) -> &'b [&'a ThreadSample] {
    let Some(all) = all else { return &[] };
    let from = all.partition_point(|sample| sample.time_ns < start_ns);
    let to = all.partition_point(|sample| sample.time_ns < end_ns);
    &all[from..to.max(from)]
}

fn is_work(family: Family) -> bool {
    matches!(
        family,
        Family::Launch | Family::Copy | Family::Set | Family::Graph | Family::Collective | Family::Sync
    )
}

fn class_of_op(op: &OpInfo) -> Cause {
    if matches!(op.role, Role::CaptureEnd | Role::GraphInstantiate) {
        return Cause::GraphRecapture;
    }
    match op.family {
        Family::Copy => Cause::CopyPcie,
        Family::Alloc | Family::Free => Cause::GpuAlloc,
        Family::Load => Cause::GpuColdstart,
        _ if op.waits_for_gpu => Cause::GpuWait,
        _ => Cause::LaunchBound,
    }
}

/// Tracing and compiling of a model, wherever it is called from.
fn is_of_compiler(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    ["/torch/_dynamo/convert_frame", "/torch/_inductor/", "/triton/compiler/", "/torch/_functorch/_aot"]
        .iter()
        .any(|part| file.contains(part))
}

/// Of the program itself, not of a package or of Python.
pub(crate) fn is_own(frame: &Frame) -> bool {
    frame.kind == FrameKind::Python
        && frame.file.as_deref().is_some_and(|file| !is_of_library(file) && !file.starts_with('<'))
}

fn key(frame: &Frame) -> Option<(&str, u32)> {
    frame.file.as_deref().zip(frame.line)
}

fn lines(evidence: &Evidence, stack_id: i64) -> impl Iterator<Item = (&str, u32)> {
    evidence.frames.get(&stack_id).into_iter().flatten().filter_map(key)
}
