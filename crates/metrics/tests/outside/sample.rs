//! A little trace with known sums.

use gpuwhy_metrics::State;
use gpuwhy_model::{
    Batch, Blame, Call, CallWindow, CopyWindow, Direction, Facts, Family, Frame, FrameKind, GpuSample,
    Histogram, Kept, Layer, Level, Loss, MemoryKind, MemoryUse, OpId, OpInfo, ProbeState, Process, Reason,
    Role, Stack, TracingCost,
};

pub(crate) const START_NS: u64 = 1_800_000_000_000_000_000;
const S: u64 = 1_000_000_000;

pub(crate) fn ops() -> Vec<OpInfo> {
    let op = |id, name: &str, family, waits_for_gpu| OpInfo {
        id: OpId(id),
        name: name.into(),
        layer: Layer::Cuda,
        family,
        waits_for_gpu,
        role: Role::None,
    };
    vec![
        op(1, "cuLaunchKernel", Family::Launch, false),
        op(2, "cudaStreamSynchronize", Family::Sync, true),
        op(3, "cudaMemcpyAsync", Family::Copy, false),
    ]
}

/// What was put in, to compare with what comes out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    pub(crate) calls: u64,
    pub(crate) sum_ns: u64,
    pub(crate) slow: u64,
}

/// So many seconds of two processes, the second of which has a name that means harm.
pub(crate) fn batches(seconds: u64) -> (Vec<(Batch, Facts)>, Truth) {
    let mut truth = Truth::default();
    let mut random = 88_172_645_463_325_252_u64;
    let batches = (0..seconds).map(|second| batch(second, &mut random, &mut truth)).collect();
    (batches, truth)
}

pub(crate) fn state(seconds: u64) -> (State, Truth) {
    let (batches, truth) = batches(seconds);
    let mut state = State::new("node7", START_NS, &ops(), true);
    for (batch, facts) in &batches {
        state.take(batch, facts);
    }
    let probes = [("cuda".to_string(), ProbeState::Attached, 3), ("xid".to_string(), ProbeState::Refused, 1)];
    state.see_probes(START_NS + seconds * S, &probes);
    state.see_own(1_500_000_000, 64 << 20);
    (state, truth)
}

fn batch(second: u64, random: &mut u64, truth: &mut Truth) -> (Batch, Facts) {
    let now = START_NS + second * S;
    let mut batch = Batch::default();
    let mut facts = Facts::default();
    if second == 0 {
        let trainer =
            Process { pid: 10, comm: "python3".into(), start_ns: now, rank: Some(3), ..Process::default() };
        let hostile = "evil\"} 1\nx{a=\"\\".to_string();
        let pod = Some("pod-1".into());
        batch.processes = vec![
            trainer,
            Process {
                pid: 11,
                comm: hostile,
                start_ns: now,
                pod,
                namespace: Some("ml".into()),
                ..Process::default()
            },
        ];
        batch.stacks = vec![stack()];
    }
    for pid in [10, 11] {
        for op in ops() {
            let (window, slow) = window(now, pid, op.id, random);
            truth.calls += window.count;
            truth.sum_ns += window.sum_ns;
            truth.slow += slow.len() as u64;
            facts.blame.extend(gpuwhy_cause::blame_rows(std::slice::from_ref(&window), &[], &ops()));
            batch.windows.push(window);
            batch.calls.extend(slow);
        }
        facts.copies.push(CopyWindow {
            window_start_ns: now,
            window_ns: S,
            pid,
            cgroup_id: 0,
            direction: Direction::HostToDevice,
            count: 4,
            bytes: 4 << 20,
            sum_ns: 100,
            errors: 0,
        });
        facts.memory.push(MemoryUse {
            time_ns: now,
            pid,
            gpu: Some(0),
            kind: MemoryKind::Device,
            live_bytes: (second + 1) << 20,
            peak_bytes: (second + 1) << 20,
            live_count: 1,
            allocated_bytes: (second + 1) << 20,
            freed_bytes: 0,
            failures: 0,
        });
        batch.tracing_costs.push(TracingCost {
            window_start_ns: now,
            window_ns: S,
            pid,
            calls: 10,
            cost_ns: 20_000,
            worst_thread_pct: 0.1,
            level: Level::Full,
        });
    }
    batch.losses.push(Loss {
        start_ns: now,
        end_ns: now + 1,
        probe: "cuda".into(),
        cpu: 0,
        reason: "ring full".into(),
        count: 2,
    });
    batch.gpu_samples.push(GpuSample {
        time_ns: now,
        gpu: 0,
        uuid: "GPU-1".into(),
        name: "H200".into(),
        sm_pct: Some(87.5),
        power_mw: Some(512_000),
        throttle_reasons: if second == 1 { vec!["sw_power_cap".into()] } else { Vec::new() },
        ..GpuSample::default()
    });
    (batch, facts)
}

fn window(now: u64, pid: u32, op: OpId, random: &mut u64) -> (CallWindow, Vec<Call>) {
    let mut hist = Histogram::default();
    let (mut sum_ns, mut count, mut slow) = (0, 0, Vec::new());
    for call in 0..200 {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let duration_ns =
            if call % 50 == 0 { 20_000_000 + *random % 5_000_000 } else { 1_500 + *random % 6_000 };
        hist.record(duration_ns);
        sum_ns += duration_ns;
        count += 1;
        if call % 50 == 0 {
            // One call of a thread at a time.
            let start_ns = now + call * 1_000_000 + u64::from(op.0);
            slow.push(slow_call(start_ns, duration_ns, pid, op));
        }
    }
    let blame = Blame { oncpu_ns: sum_ns, ..Blame::default() };
    let window = CallWindow {
        window_start_ns: now,
        window_ns: S,
        pid,
        tid: pid,
        op,
        direction: None,
        count,
        errors: 1,
        kept: slow.len() as u64,
        bytes: 0,
        sum_ns,
        min_ns: 1_500,
        max_ns: 25_000_000,
        blame,
        hist,
        cost_ns: 0,
        beside_ns: 0,
        slice: 0,
    };
    (window, slow)
}

fn slow_call(start_ns: u64, duration_ns: u64, pid: u32, op: OpId) -> Call {
    let mut blame = Blame { oncpu_ns: 1_000_000, runq_ns: duration_ns - 3_000_000, ..Blame::default() };
    blame.blocked_ns[Reason::Futex as usize] = 2_000_000;
    let stack_id = Some(77);
    Call { start_ns, duration_ns, op, pid, tid: pid, kept: Kept::Slow, stack_id, blame, ..Call::default() }
}

fn stack() -> Stack {
    let frame = |kind, function: &str, line| Frame {
        kind,
        function: Some(function.into()),
        file: Some("/job/train.py".into()),
        line,
        ..Frame::default()
    };
    let frames = vec![
        frame(FrameKind::Native, "cuLaunchKernel", None),
        frame(FrameKind::Python, "forward", Some(142)),
    ];
    Stack { stack_id: 77, pid: 10, frames, ..Stack::default() }
}
