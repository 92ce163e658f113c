//! What running code was doing, from its samples: launching, computing for itself, collecting garbage, waiting for the GPU.

use crate::activity::{Activity, Syscall, ThreadSample};
use crate::evidence::{Evidence, OpSums};
use crate::op_ledger::full_queue_ns;
use gpuwhy_model::{
    Cause, Family, Frame, FrameKind, OpId, OpInfo, Part, Role, is_compiled_model, is_of_library,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Fewer samples in kernels of the CPU do not say what a line is for.
const MIN_HOST_SAMPLES: usize = 5;

/// Looks at samples with what the rest of the trace tells about their lines.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    evidence: &'a Evidence,
    ops: HashMap<OpId, &'a OpInfo>,
    /// Calls that mostly wait for the GPU although they are there for something else, by process.
    waiting_calls: BTreeSet<(u32, OpId)>,
    /// Lines from which GPU calls were made, directly or through others: file, line.
    launching: BTreeSet<(&'a str, u32)>,
    /// The program's own functions on such lines: file, name.
    launchers: BTreeSet<(&'a str, &'a str)>,
    /// Those and the functions that lead to them.
    callers: BTreeSet<(&'a str, &'a str)>,
    /// What calls from a line were, by their samples: for the time in which their probe was detached.
    classes: BTreeMap<(&'a str, u32), BTreeMap<Cause, u64>>,
    /// Stacks of tensors that are computed on the CPU: in its kernels, or on a line of the program that has such and never leads to a
    /// call.
    host_math: HashSet<i64>,
    /// Stacks of a compiler.
    compiling: HashSet<i64>,
    /// On-CPU samples of each thread in order.
    samples: BTreeMap<u32, Vec<&'a ThreadSample>>,
    waiting: BTreeMap<u32, Vec<&'a ThreadSample>>,
}

impl<'a> Running<'a> {
    pub(crate) fn new(evidence: &'a Evidence, activity: &'a Activity) -> Running<'a> {
        let ops: HashMap<OpId, &OpInfo> = evidence.ops.values().map(|op| (op.id, op)).collect();
        let waiting_calls = waiting_calls(evidence);
        let (mut launching, mut launchers, mut callers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let is_work = |op: &str| evidence.ops.get(op).is_some_and(|op| is_work(op.family));
        for site in evidence.sites.iter().filter(|site| is_work(&site.op)) {
            launching.extend(lines(evidence, site.stack_id));
            launchers.extend(own_function(evidence, site.stack_id));
            callers.extend(own_functions(evidence, site.stack_id));
        }
        let (mut with_calls, mut with_layers): (HashSet<i64>, HashSet<i64>) = Default::default();
        let in_kernel = |frames: &[Frame]| frames.first().is_some_and(is_host_math);
        let kernels = evidence.frames.iter().filter(|(_, frames)| in_kernel(frames));
        let mut host_math: HashSet<i64> = kernels.map(|(id, _)| *id).collect();
        let mut of_host: BTreeMap<(&str, u32), usize> = BTreeMap::new();
        let (mut samples, mut waiting): (BTreeMap<u32, Vec<_>>, BTreeMap<u32, Vec<_>>) = Default::default();
        for sample in &activity.samples {
            let of_part = if sample.part == Part::OnCpu { &mut samples } else { &mut waiting };
            of_part.entry(sample.tid).or_default().push(sample);
            // In the driver, or in torch's CUDA code: a call whose probe may be detached.
            let frames = sample.stack_id.and_then(|id| evidence.frames.get(&id));
            let in_cuda = frames.and_then(|frames| frames.first()).is_some_and(is_of_cuda);
            if sample.stack_id.is_some_and(|id| host_math.contains(&id))
                && let Some(line) = own_line(evidence, sample.stack_id)
            {
                *of_host.entry(line).or_default() += 1;
            }
            // What runs layers leads to calls, too.
            if let Some(id) = sample.stack_id.filter(|_| activity.callers.contains_key(&sample.tid))
                && frames.is_some_and(|frames| frames.iter().any(is_of_model))
                && with_layers.insert(id)
            {
                callers.extend(own_functions(evidence, id));
            }
            let leads_to_calls = in_cuda || ops.get(&sample.op).is_some_and(|op| is_work(&op.name));
            // Once for each stack: there are few, and millions of samples.
            if let Some(id) = sample.stack_id.filter(|id| leads_to_calls && with_calls.insert(*id)) {
                launching.extend(lines(evidence, id));
                launchers.extend(own_function(evidence, id));
                callers.extend(own_functions(evidence, id));
            }
        }
        let mut classes: BTreeMap<(&str, u32), BTreeMap<Cause, u64>> = BTreeMap::new();
        let mut of_stacks: HashMap<i64, BTreeSet<(&str, u32)>> = HashMap::new();
        for sample in &activity.samples {
            let Some((op, id)) = ops.get(&sample.op).zip(sample.stack_id) else { continue };
            // What is loaded on a line is loaded once.
            if op.family == Family::Load {
                continue;
            }
            let class = class_of_call(&waiting_calls, sample.pid, op);
            for line in of_stacks.entry(id).or_insert_with(|| lines_of_call(evidence, id).collect()).iter() {
                *classes.entry(*line).or_default().entry(class).or_default() += 1;
            }
        }
        for all in samples.values_mut().chain(waiting.values_mut()) {
            all.sort_by_key(|sample| sample.time_ns);
        }
        of_host.retain(|line, count| *count >= MIN_HOST_SAMPLES && !launching.contains(line));
        let on_line = |id: i64| own_line(evidence, Some(id)).is_some_and(|line| of_host.contains_key(&line));
        host_math.extend(evidence.frames.keys().copied().filter(|id| on_line(*id)));
        let compiling = evidence.frames.iter().filter(|(_, frames)| frames.iter().any(is_of_compiler));
        let compiling = compiling.map(|(id, _)| *id).collect();
        Running {
            evidence,
            ops,
            host_math,
            compiling,
            waiting_calls,
            launching,
            launchers,
            callers,
            classes,
            samples,
            waiting,
        }
    }

    pub(crate) fn on_cpu(&self, tid: u32, start_ns: u64, end_ns: u64) -> &[&'a ThreadSample] {
        within(self.samples.get(&tid), start_ns, end_ns)
    }

    pub(crate) fn waiting(&self, tid: u32, start_ns: u64, end_ns: u64) -> &[&'a ThreadSample] {
        within(self.waiting.get(&tid), start_ns, end_ns)
    }

    /// What running in a call of a process is.
    pub(crate) fn class_of_call(&self, pid: u32, op: &OpInfo) -> Cause {
        class_of_call(&self.waiting_calls, pid, op)
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
            return self.class_of_call(sample.pid, op);
        }
        let frames = self.frames(sample.stack_id);
        if sample.stack_id.is_some_and(|id| self.compiling.contains(&id)) {
            return Cause::GpuColdstart;
        }
        if matches!(sample.syscall, Syscall::Read | Syscall::Write) {
            return Cause::IoFile;
        }
        // Memory that is mapped, or given back, for a call is that call's.
        if sample.syscall == Syscall::Memory {
            return self.class_of_line(sample.stack_id).unwrap_or(Cause::CpuSelf);
        }
        // An optimizer, a layer or a backward pass on the CPU computes.
        if sample.stack_id.is_some_and(|id| self.host_math.contains(&id)) {
            return Cause::CpuSelf;
        }
        let mut python = frames.iter().filter(|frame| frame.kind == FrameKind::Python);
        let Some(innermost) = python.clone().next() else {
            // The thread of a backward pass has no Python of its own: it launches.
            return if calls { Cause::LaunchBound } else { Cause::CpuSelf };
        };
        if !calls {
            return Cause::CpuSelf;
        }
        // Bytes that the CPU moves are no launch, whatever line it came from: memory that is pinned, or gathered, in each step.
        if frames.first().is_some_and(is_copying) {
            return self
                .class_of_line(sample.stack_id)
                .filter(|class| *class == Cause::CopyPcie)
                .unwrap_or(Cause::CpuSelf);
        }
        // In the driver or in torch's CUDA code it launches, whatever line it came from.
        if frames.first().is_some_and(is_of_cuda) {
            return self.class_of_line(sample.stack_id).unwrap_or(Cause::LaunchBound);
        }
        // A line of the program that never leads to a call is its own computing. Between a line that does and the call
        // there are frames of torch: they are launching where the function has calls at all.
        let launches = match is_own(innermost) {
            // Of whatever package: a line that leads to calls.
            _ if key(innermost).is_some_and(|line| self.launching.contains(&line)) => true,
            true => false,
            false if is_of_model(innermost) => true,
            false if is_of_framework(innermost) => match python.find(|frame| is_own(frame)) {
                Some(own) => function(own).is_some_and(|function| self.launchers.contains(&function)),
                None => true,
            },
            // Another package: a tokenizer called in a statement that launches is no launching.
            false => false,
        };
        if launches { Cause::LaunchBound } else { Cause::CpuSelf }
    }

    /// What most calls from the line that makes them are; where none was sampled there, from the innermost line of the program.
    /// Layers and optimizers launch, whatever else is called below the program's line: `trainer.fit()` is all of it.
    fn class_of_line(&self, stack_id: Option<i64>) -> Option<Cause> {
        let innermost = self.frames(stack_id).iter().find(|frame| frame.kind == FrameKind::Python)?;
        let own = || own_line(self.evidence, stack_id).and_then(|line| self.classes.get(&line));
        let known = match key(innermost).and_then(|line| self.classes.get(&line)) {
            None if is_of_model(innermost) => None,
            None => own(),
            known => known,
        }?;
        known.iter().max_by_key(|(_, count)| **count).map(|(class, _)| *class)
    }

    /// The part of the program that computes: the outermost of its functions that does not lead to GPU calls. A tokenizer of
    /// several functions is one thing.
    pub(crate) fn task_of(&self, stack_id: Option<i64>) -> Option<(String, String)> {
        let own = || stack_id.into_iter().flat_map(|id| own_functions(self.evidence, id));
        // A script is no part of itself, if it has functions at all.
        let is_part = |function: &(&str, &str)| function.1 != "<module>" && !self.callers.contains(function);
        let outermost = own().collect::<Vec<_>>().into_iter().rev().find(is_part);
        outermost.or_else(|| own().next()).map(|(file, name)| (file.to_string(), name.to_string()))
    }

    pub(crate) fn own_line(&self, stack_id: i64) -> Option<(&'a str, u32)> {
        own_line(self.evidence, Some(stack_id))
    }

    pub(crate) fn frames(&self, stack_id: Option<i64>) -> &'a [Frame] {
        stack_id.and_then(|id| self.evidence.frames.get(&id)).map_or(&[], Vec::as_slice)
    }
}

fn is_of_cuda(frame: &Frame) -> bool {
    let module = frame.module.rsplit('/').next().unwrap_or_default();
    frame.kind == FrameKind::Native
        && ["libcuda", "libcudart", "libcublas", "libcudnn", "libtorch_cuda", "libc10_cuda", "libnccl"]
            .iter()
            .any(|name| module.starts_with(name))
}

/// Computes tensors of the CPU: kernels of PyTorch, which are compiled once for each kind of CPU, and what they call.
fn is_host_math(frame: &Frame) -> bool {
    let module = frame.module.rsplit('/').next().unwrap_or_default();
    let function = frame.function.as_deref().unwrap_or_default();
    frame.kind == FrameKind::Native
        && (["libgomp", "libiomp5", "libmkl", "libopenblas"].iter().any(|name| module.starts_with(name))
            || ["at::native::AVX", "at::native::DEFAULT", "at::native::SVE", "dnnl::impl::cpu", "mkl_"]
                .iter()
                .any(|name| function.contains(name)))
}

/// Of the C library, or compiled into a library of its own.
fn is_copying(frame: &Frame) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    frame.kind == FrameKind::Native
        && ["memcpy", "memmove", "memset"]
            .iter()
            .any(|name| function.trim_start_matches('_').starts_with(name))
}

/// Layers, backward passes, optimizers, and what is compiled of them, in a thread that launches.
fn is_of_model(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    is_compiled_model(file)
        || ["/torch/nn/", "/torch/optim/", "/torch/autograd/"].iter().any(|part| file.contains(part))
}

fn is_of_framework(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    ["/torch/", "/triton/", "/transformers/", "/vllm/"].iter().any(|part| file.contains(part))
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

/// Copies of few bytes that take long wait for the GPU to get there; launches into a full queue wait until there is room.
fn waiting_calls(evidence: &Evidence) -> BTreeSet<(u32, OpId)> {
    let calls = evidence.sums.iter().filter_map(|sums| Some((sums, evidence.ops.get(&sums.op)?)));
    let waits = |sums: &OpSums, op: &OpInfo| match op.family {
        Family::Copy => op.waits_for_gpu && sums.bytes_ns() * 2 < sums.blame.oncpu_ns,
        _ => is_launch(op) && full_queue_ns(sums, op) * 2 > sums.blame.oncpu_ns,
    };
    calls.filter(|(sums, op)| waits(sums, op)).map(|(sums, op)| (sums.pid, op.id)).collect()
}

pub(crate) fn is_launch(op: &OpInfo) -> bool {
    op.family == Family::Launch || op.role == Role::GraphLaunch
}

fn class_of_call(waiting_calls: &BTreeSet<(u32, OpId)>, pid: u32, op: &OpInfo) -> Cause {
    match waiting_calls.contains(&(pid, op.id)) {
        true => Cause::GpuWait,
        false => class_of_op(op),
    }
}

/// What running in a call is.
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

/// Tracing and compiling of a model, wherever it is called from. What is compiled runs through the same packages: their other
/// files, and in these functions named `run` and Triton's `CompiledKernel`.
fn is_of_compiler(frame: &Frame) -> bool {
    const FILES: [&str; 10] = [
        "/torch/_dynamo/convert_frame",
        "/torch/_dynamo/symbolic_convert",
        "/torch/_functorch/_aot_autograd/graph_c",
        "/torch/_inductor/codegen/",
        "/torch/_inductor/compile_fx",
        "/torch/_inductor/compile_worker/",
        "/torch/_inductor/graph.py",
        "/torch/_inductor/runtime/compile_tasks",
        "/triton/backends/nvidia/compiler",
        "/triton/compiler/",
    ];
    const AUTOTUNING: [&str; 3] = ["precompile", "autotune", "bench"];
    let (file, function) =
        (frame.file.as_deref().unwrap_or_default(), frame.function.as_deref().unwrap_or_default());
    // Who imports torch imports its compiler.
    let runs =
        function == "<module>" || function.ends_with(".run") || function.starts_with("CompiledKernel.");
    FILES.iter().any(|part| file.contains(part)) && !runs
        || file.contains("/torch/_inductor/runtime/triton_heuristics")
            && AUTOTUNING.iter().any(|part| function.contains(part))
}

/// Of the program itself, not of a package or of Python.
pub(crate) fn is_own(frame: &Frame) -> bool {
    frame.kind == FrameKind::Python && frame.file.as_deref().is_some_and(|file| !is_of_library(file))
}

fn key(frame: &Frame) -> Option<(&str, u32)> {
    frame.file.as_deref().zip(frame.line)
}

fn lines(evidence: &Evidence, stack_id: i64) -> impl Iterator<Item = (&str, u32)> {
    evidence.frames.get(&stack_id).into_iter().flatten().filter_map(key)
}

fn function(frame: &Frame) -> Option<(&str, &str)> {
    frame.file.as_deref().zip(frame.function.as_deref())
}

/// The innermost function of the program's own.
fn own_function(evidence: &Evidence, stack_id: i64) -> Option<(&str, &str)> {
    evidence.frames.get(&stack_id)?.iter().find(|frame| is_own(frame)).and_then(function)
}

/// The program's own, innermost first.
fn own_functions(evidence: &Evidence, stack_id: i64) -> impl Iterator<Item = (&str, &str)> {
    evidence.frames.get(&stack_id).into_iter().flatten().filter(|frame| is_own(frame)).filter_map(function)
}

/// The line that makes a call, and the innermost of the program's own that leads to it.
fn lines_of_call(evidence: &Evidence, stack_id: i64) -> impl Iterator<Item = (&str, u32)> {
    let frames = evidence.frames.get(&stack_id);
    let innermost = frames.and_then(|frames| frames.iter().find(|frame| frame.kind == FrameKind::Python));
    innermost.and_then(key).into_iter().chain(own_line(evidence, Some(stack_id)))
}

/// The innermost line of the program's own.
fn own_line(evidence: &Evidence, stack_id: Option<i64>) -> Option<(&str, u32)> {
    evidence.frames.get(&stack_id?)?.iter().find(|frame| is_own(frame)).and_then(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::{Blame, Layer};

    #[test]
    fn a_copy_of_few_bytes_that_takes_long_waits_for_the_gpu() {
        let copy = OpInfo {
            id: OpId(4),
            name: "cudaMemcpy".into(),
            layer: Layer::Cuda,
            family: Family::Copy,
            waits_for_gpu: true,
            role: Role::None,
        };
        let sums = |pid, bytes| OpSums {
            pid,
            op: copy.name.clone(),
            bytes,
            blame: Blame { oncpu_ns: 1_000_000, ..Blame::default() },
            ..OpSums::default()
        };
        let evidence = Evidence {
            ops: [(copy.name.clone(), copy.clone())].into(),
            sums: vec![sums(1, 16_000), sums(2, 8_000_000)],
            ..Evidence::default()
        };
        let running = Running::new(&evidence, &evidence.activity);
        assert_eq!(running.class_of_call(1, &copy), Cause::GpuWait);
        assert_eq!(running.class_of_call(2, &copy), Cause::CopyPcie);
    }

    #[test]
    fn a_launch_that_spins_while_the_gpu_is_busy_waits_for_it() {
        let launch = OpInfo {
            id: OpId(5),
            name: "cudaGraphLaunch".into(),
            layer: Layer::Cuda,
            family: Family::Graph,
            waits_for_gpu: false,
            role: Role::GraphLaunch,
        };
        // The queue takes the first hundred at once.
        let sums = |pid, busy_count| {
            let mut sums = OpSums { pid, op: launch.name.clone(), count: 400, ..OpSums::default() };
            (0..100).for_each(|_| sums.hist.record(5_000));
            (0..300).for_each(|_| sums.hist.record(900_000));
            sums.blame.oncpu_ns = 270_500_000;
            sums.busy_count = busy_count;
            sums.busy_oncpu_ns = busy_count * 900_000;
            sums
        };
        let evidence = Evidence {
            ops: [(launch.name.clone(), launch.clone())].into(),
            sums: vec![sums(1, 300), sums(2, 0)],
            ..Evidence::default()
        };
        let running = Running::new(&evidence, &evidence.activity);
        assert_eq!(running.class_of_call(1, &launch), Cause::GpuWait);
        // Without the GPU's own word that it was busy, the call is what takes so long.
        assert_eq!(running.class_of_call(2, &launch), Cause::LaunchBound);
    }

    fn python(file: &str, function: &str, line: u32) -> Frame {
        Frame {
            kind: FrameKind::Python,
            file: Some(file.into()),
            function: Some(function.into()),
            line: Some(line),
            ..Frame::default()
        }
    }

    fn in_driver() -> Frame {
        Frame { kind: FrameKind::Native, module: "libcuda.so.1".into(), ..Frame::default() }
    }

    /// All of a framework's loop is below one line of the program, in which copies are watched all the time and launches are not.
    #[test]
    fn a_launch_below_a_line_that_also_copies_is_no_copy() {
        let copy = OpInfo {
            id: OpId(4),
            name: "cudaMemcpyAsync".into(),
            layer: Layer::Cuda,
            family: Family::Copy,
            waits_for_gpu: false,
            role: Role::None,
        };
        let below = |file: &str, line| {
            vec![in_driver(), python(file, "call", line), python("/srv/train.py", "fit", 98)]
        };
        let frames: BTreeMap<i64, Vec<Frame>> = [
            (1, below("/site-packages/lightning/data.py", 104)),
            (2, below("/site-packages/torch/optim/adam.py", 457)),
            (3, below("/site-packages/lightning/data.py", 107)),
        ]
        .into();
        let sample = |stack, op| ThreadSample {
            time_ns: 0,
            pid: 1,
            tid: 1,
            part: Part::OnCpu,
            op,
            stack_id: Some(stack),
            weight_ns: 1,
            in_gc: false,
            syscall: Syscall::Other,
            in_fault: false,
        };
        let evidence = Evidence {
            ops: [(copy.name.clone(), copy.clone())].into(),
            frames,
            activity: Activity { samples: vec![sample(1, copy.id)], ..Activity::default() },
            ..Evidence::default()
        };
        let running = Running::new(&evidence, &evidence.activity);
        let class = |stack| running.class(&sample(stack, OpId::default()), true);
        assert_eq!(class(1), Cause::CopyPcie);
        assert_eq!(class(2), Cause::LaunchBound);
        assert_eq!(class(3), Cause::CopyPcie, "of an unknown line, what the program's line is known for");
    }

    /// `optimizer.step()` of tensors on the CPU is no launching, and what leads to its kernels is of them; a line that launches is not,
    /// whatever else it does.
    #[test]
    fn an_optimizer_on_the_cpu_computes() {
        let native = |module: &str, function: &str| Frame {
            kind: FrameKind::Native,
            module: module.into(),
            function: Some(function.into()),
            ..Frame::default()
        };
        let below = |frame: Frame, line| {
            vec![
                frame,
                python("/site-packages/torch/optim/adam.py", "adam", 476),
                python("/srv/train.py", "step", line),
            ]
        };
        let kernel = || native("libtorch_cpu.so", "at::native::AVX2::VectorizedLoop2d<mul>");
        let dispatch = || native("libtorch_cpu.so", "at::_ops::mul_::call(at::Tensor&)");
        let frames: BTreeMap<i64, Vec<Frame>> = [
            (1, below(kernel(), 98)),
            (2, below(dispatch(), 98)),
            (3, below(kernel(), 99)),
            (4, below(dispatch(), 99)),
            (5, below(in_driver(), 99)),
            (6, below(dispatch(), 100)),
        ]
        .into();
        let sample = |stack| ThreadSample {
            time_ns: 0,
            pid: 1,
            tid: 1,
            part: Part::OnCpu,
            op: OpId::default(),
            stack_id: Some(stack),
            weight_ns: 1,
            in_gc: false,
            syscall: Syscall::Other,
            in_fault: false,
        };
        let samples = [1, 3].into_iter().flat_map(|stack| (0..MIN_HOST_SAMPLES).map(move |_| sample(stack)));
        let evidence = Evidence {
            frames,
            activity: Activity { samples: samples.chain([sample(5)]).collect(), ..Activity::default() },
            ..Evidence::default()
        };
        let running = Running::new(&evidence, &evidence.activity);
        let class = |stack| running.class(&sample(stack), true);
        assert_eq!([1, 2, 3].map(class), [Cause::CpuSelf; 3]);
        assert_eq!([4, 5, 6].map(class), [Cause::LaunchBound; 3]);
    }

    #[test]
    fn running_what_was_compiled_is_no_compiling() {
        let inductor = "/site-packages/torch/_inductor";
        let compiles = |folder: &str, function| is_of_compiler(&python(folder, function, 1));
        assert!(compiles(&format!("{inductor}/compile_fx.py"), "compile_fx_inner"));
        assert!(compiles(&format!("{inductor}/runtime/triton_heuristics.py"), "CachingAutotuner.precompile"));
        assert!(!compiles(&format!("{inductor}/runtime/triton_heuristics.py"), "CachingAutotuner.run"));
        assert!(!compiles(&format!("{inductor}/output_code.py"), "CompiledFxGraph.__call__"));
        assert!(!compiles(&format!("{inductor}/compile_fx.py"), "<module>"), "imported with torch");
        assert!(!compiles("/site-packages/triton/compiler/compiler.py", "CompiledKernel.launch_metadata"));
        assert!(is_of_model(&python(
            "/cache/26/c26momszhermsmfxpo557ldtfyiijly7lp75kbvjmzt4gilrbg36.py",
            "call",
            1
        )));
        assert!(!is_of_model(&python("/srv/c26.py", "call", 1)));
    }
}
