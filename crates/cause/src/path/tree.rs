//! The step tree: what `explain` shows first. Its fields are those of its JSON.

use super::noise::StepNoise;
use super::passes::{Pass, is_of_autograd, passes};
use super::{Key, Part, Parts, ProcessPath, Turn, describe, hidden};
use crate::case::Case;
use crate::draft::place_of_stack;
use crate::evidence::Evidence;
use crate::severity::percent;
use crate::when::descends;
use gpuwhy_model::{Cause, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A phase of a process, and what its time went to. The parts of the path are exclusive and sum to the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTree {
    pub pid: u32,
    pub process: Option<String>,
    pub rank: Option<i32>,
    /// `start`, `loop` or `end`.
    pub phase: String,
    pub window: Span,
    /// What marks the steps; nothing where no period was found: the path is then of all the phase's time.
    pub found_by: Option<String>,
    pub count: u64,
    /// Of a step, or of the whole phase.
    pub median_ms: f64,
    pub p99_ms: f64,
    pub mean_ms: f64,
    /// Between which times the median and the mean lie, with 99.9%; nothing where there are too few steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<StepNoise>,
    pub gpu_busy_pct: Option<f64>,
    pub gpu_busy_source: Option<String>,
    /// What the server that the process works for finished meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    pub path: Vec<PathPart>,
    /// Steps that took far longer than the others.
    pub outliers: Vec<Stall>,
}

/// Requests, and how much of the phase's time each took: less than it lasted, where several are served at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    pub count: u64,
    pub ms: f64,
    /// Steps for each of them, where steps are known.
    pub steps: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathPart {
    pub class: Cause,
    pub share_pct: f64,
    /// Of a mean step.
    pub ms: f64,
    /// What a step would take less without it, at least and at most: time hidden behind the GPU saves nothing.
    pub saves_ms: [f64; 2],
    pub thread: String,
    pub process: u32,
    pub message: String,
    /// Innermost line of the program first.
    #[serde(rename = "where")]
    pub place: Vec<String>,
    pub parts: Vec<PathPart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    pub start_ns: u64,
    pub ms: f64,
    pub path: Vec<PathPart>,
}

/// Parts below this share of a step are summed.
const MIN_SHARE_PCT: f64 = 1.0;
const MAX_LINES: usize = 12;

/// What the parts are of: how long a step is, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) whole_ns: u64,
    pub(crate) count: f64,
    pub(crate) busy_pct: Option<f64>,
}

impl Scale {
    pub(crate) fn of_loop(path: &ProcessPath) -> Scale {
        let whole_ns = path.phases.repeats.ns();
        let count = path.turns.as_ref().map_or(1.0, |turns| {
            // Turns and the loop differ by what lies before the first and behind the last.
            (whole_ns as f64 / turns.mean_ns.max(1) as f64).max(1.0)
        });
        Scale { whole_ns, count, busy_pct: path.busy_pct }
    }

    /// What all steps together would take less without a part. The GPU's own work stays: time in which it was busy cannot
    /// be saved.
    pub(crate) fn saves_ns(&self, class: Cause, part_ns: u64, samples: u64) -> [u64; 2] {
        let idle = self.busy_pct.map_or(1.0, |pct| (1.0 - pct / 100.0).max(0.0));
        let most = part_ns.min((self.whole_ns as f64 * idle) as u64);
        // Waits are clocked; where a share comes from samples it has their error.
        let error = match is_sampled(class) && samples > 0 {
            true => 1.96 / (samples as f64).sqrt(),
            false => 0.03,
        };
        let least = match class {
            // Launching less does not end launching: how much is saved depends on how.
            Cause::LaunchBound => 0,
            _ => (most as f64 * (1.0 - error).max(0.0)) as u64,
        };
        let upper = (most as f64 * (1.0 + error)).min(part_ns as f64 * (1.0 + error));
        [least, (upper as u64).min(self.whole_ns)]
    }
}

/// Whether its time comes from samples of running code; waits are clocked.
pub(crate) fn is_sampled(class: Cause) -> bool {
    matches!(
        class,
        Cause::CpuSelf
            | Cause::PythonGc
            | Cause::LaunchBound
            | Cause::CopyPcie
            | Cause::GpuWait
            | Cause::GpuAlloc
    )
}

/// `saves`: what all steps together would take less without it.
pub(crate) fn part_of(case: &Case<'_>, key: &Key, part: &Part, saves: [u64; 2], scale: Scale) -> PathPart {
    let per_step = |ns: u64| ns as f64 / 1e6 / scale.count;
    let thread = case.evidence.activity.threads.get(&key.tid);
    let hidden = hidden(key.class, part.ns, saves, scale.busy_pct);
    let hidden = hidden.map_or_else(String::new, |why| format!(" ({why})"));
    PathPart {
        class: key.class,
        share_pct: percent(part.ns, scale.whole_ns),
        ms: per_step(part.ns),
        saves_ms: [per_step(saves[0]), per_step(saves[1])],
        thread: thread.map(|thread| thread.comm.clone()).unwrap_or_default(),
        process: thread.map_or(key.tid, |thread| thread.pid),
        message: describe(case, key, part) + &hidden,
        place: place_of_stack(case, part.stack_id).python.into_iter().take(MAX_LINES).collect(),
        parts: Vec::new(),
    }
}

/// Largest first; launching is one part with its threads below it, small ones are summed.
fn path_parts(case: &Case<'_>, path: &ProcessPath, parts: &Parts, scale: Scale) -> Vec<PathPart> {
    let part_of = |key: &Key, part: &Part| {
        part_of(case, key, part, path.saves_ns(&scale, key, part, case.pid_of(key.tid)), scale)
    };
    let (mut shown, mut launching, mut rest) = (Vec::new(), Vec::new(), 0);
    for (key, part) in parts {
        match key.class {
            Cause::LaunchBound => launching.push((part_of(key, part), part)),
            _ if percent(part.ns, scale.whole_ns) < MIN_SHARE_PCT => rest += part.ns,
            _ => shown.push(part_of(key, part)),
        }
    }
    shown.extend(launching_part(case, launching));
    shown.sort_by(|a, b| b.ms.total_cmp(&a.ms).then(a.class.cmp(&b.class)));
    if rest > 0 {
        let small = Part { ns: rest, ..Part::default() };
        let key = Key { class: Cause::Unknown, tid: 0, function: None };
        let part = PathPart { message: "small parts".into(), process: 0, ..part_of(&key, &small) };
        shown.push(part);
    }
    shown
}

/// What so much is such a share of. Each thread alone may be what all of a step waits for; together they save no more than that.
fn whole_ms(ms: f64, share_pct: f64) -> f64 {
    100.0 * ms / share_pct.max(f64::MIN_POSITIVE)
}

/// All launching of a step, with what it is for below it, else by thread.
fn launching_part(case: &Case<'_>, mut threads: Vec<(PathPart, &Part)>) -> Option<PathPart> {
    /// Where less of it is known, it is not divided.
    const MIN_KNOWN: f64 = 0.3;
    /// Smaller passes are named together.
    const MIN_SHARE: f64 = 0.04;
    threads.sort_by(|(a, _), (b, _)| b.ms.total_cmp(&a.ms));
    let (first, _) = threads.first()?;
    let sum = |of: fn(&PathPart) -> f64| threads.iter().map(|(part, _)| of(part)).sum::<f64>();
    let frames = |id: i64| case.evidence.frames.get(&id).map_or(&[][..], Vec::as_slice);
    let mut of_passes: Vec<(Pass, PathPart)> = Vec::new();
    for (thread, part) in &threads {
        let comm = &thread.thread;
        for (pass, share) in passes(part, comm, frames) {
            // The thread that has most of it needs no name.
            let message = match *comm == first.thread {
                true => pass.name().into(),
                false => format!("{} ({comm})", pass.name()),
            };
            let of_pass = PathPart {
                share_pct: thread.share_pct * share,
                ms: thread.ms * share,
                saves_ms: thread.saves_ms.map(|ms| ms * share),
                message,
                ..thread.clone()
            };
            of_passes.push((pass, of_pass));
        }
    }
    // That one thread runs the backward pass says nothing of the others.
    let in_frames = || of_passes.iter().filter(|(_, part)| !is_of_autograd(&part.thread));
    let all: f64 = in_frames().map(|(_, part)| part.ms).sum();
    let known: f64 = in_frames().filter(|(pass, _)| *pass != Pass::Other).map(|(_, part)| part.ms).sum();
    let ms = sum(|part| part.ms);
    let mut parts: Vec<PathPart> = match known > MIN_KNOWN * all {
        true => {
            let is_small = |(pass, part): &(Pass, PathPart)| *pass == Pass::Other || part.ms < MIN_SHARE * ms;
            let (small, large): (Vec<_>, Vec<_>) = of_passes.into_iter().partition(is_small);
            let others = small.into_iter().map(|(_, part)| part).reduce(|sum, part| PathPart {
                share_pct: sum.share_pct + part.share_pct,
                ms: sum.ms + part.ms,
                saves_ms: [sum.saves_ms[0] + part.saves_ms[0], sum.saves_ms[1] + part.saves_ms[1]],
                ..sum
            });
            let others = others.map(|part| PathPart {
                saves_ms: part.saves_ms.map(|most| most.min(whole_ms(part.ms, part.share_pct))),
                message: Pass::Other.name().into(),
                ..part
            });
            large.into_iter().map(|(_, part)| part).chain(others).collect()
        }
        false => threads
            .iter()
            .map(|(part, _)| PathPart { message: part.thread.clone(), ..part.clone() })
            .collect(),
    };
    parts.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let share_pct = sum(|part| part.share_pct);
    Some(PathPart {
        share_pct,
        ms,
        saves_ms: [0.0, sum(|part| part.saves_ms[1]).min(whole_ms(ms, share_pct))],
        message: "Python and launching".into(),
        parts: if parts.len() > 1 { parts } else { Vec::new() },
        ..first.clone()
    })
}

/// The loop of each process first, then starts and ends.
pub(crate) fn trees(case: &Case<'_>) -> Vec<StepTree> {
    let mut trees: Vec<StepTree> = case.paths.iter().map(|path| loop_tree(case, path)).collect();
    trees.extend(
        case.paths.iter().filter_map(|path| once(case, path, "start", path.phases.start, &path.start_parts)),
    );
    trees.extend(
        case.paths.iter().filter_map(|path| once(case, path, "end", path.phases.end, &path.end_parts)),
    );
    trees
}

fn loop_tree(case: &Case<'_>, path: &ProcessPath) -> StepTree {
    let scale = Scale::of_loop(path);
    let ms = |ns: u64| ns as f64 / 1e6;
    let whole = ms(scale.whole_ns);
    let turns = path.turns.as_ref();
    StepTree {
        found_by: path.found_by.map(|kind| kind.about().into()),
        count: turns.map_or(1, |turns| turns.count),
        median_ms: turns.map_or(whole, |turns| ms(turns.median_ns)),
        p99_ms: turns.map_or(whole, |turns| ms(turns.p99_ns)),
        mean_ms: turns.map_or(whole, |turns| ms(turns.mean_ns)),
        noise: turns.and_then(|turns| turns.noise),
        gpu_busy_pct: path.busy_pct,
        gpu_busy_source: path.busy_pct.map(|_| path.busy_source.into()),
        requests: requests(case.evidence, path),
        path: path_parts(case, path, &path.loop_parts, scale),
        outliers: path.outliers.iter().map(|turn| stall(case, path, turn)).collect(),
        ..of_phase(case, path, "loop", path.phases.repeats)
    }
}

/// Of the server that is the process itself, or that has started it, as an API server starts its engine.
fn requests(evidence: &Evidence, path: &ProcessPath) -> Option<Requests> {
    let window = path.phases.repeats;
    let mut finished = 0.0;
    for sample in &evidence.servers {
        let is_its_own = sample.pid.is_some_and(|pid| descends(evidence, path.pid, pid));
        let start_ns = sample.time_ns.saturating_sub(sample.window_ns);
        let common = sample.time_ns.min(window.end_ns).saturating_sub(start_ns.max(window.start_ns));
        if is_its_own && sample.window_ns > 0 {
            let share = common as f64 / sample.window_ns as f64;
            finished += sample.requests.unwrap_or(0) as f64 * share;
        }
    }
    let count = finished.round() as u64;
    (count > 0).then(|| Requests {
        count,
        ms: window.ns() as f64 / 1e6 / finished,
        steps: path.turns.as_ref().map(|turns| turns.count as f64 / finished),
    })
}

fn stall(case: &Case<'_>, path: &ProcessPath, turn: &Turn) -> Stall {
    let scale = Scale { whole_ns: turn.span.ns(), count: 1.0, busy_pct: None };
    Stall {
        start_ns: turn.span.start_ns,
        ms: turn.span.ns() as f64 / 1e6,
        path: path_parts(case, path, &turn.parts, scale),
    }
}

/// Of a phase that happens once.
fn once(
    case: &Case<'_>,
    path: &ProcessPath,
    phase: &str,
    window: Option<Span>,
    parts: &Parts,
) -> Option<StepTree> {
    let window = window.filter(|_| !parts.is_empty())?;
    let scale = Scale { whole_ns: window.ns(), count: 1.0, busy_pct: None };
    Some(StepTree { path: path_parts(case, path, parts, scale), ..of_phase(case, path, phase, window) })
}

fn of_phase(case: &Case<'_>, path: &ProcessPath, phase: &str, window: Span) -> StepTree {
    let process = case.process(path.pid);
    let ms = window.ns() as f64 / 1e6;
    StepTree {
        pid: path.pid,
        process: process.map(|process| process.comm.clone()),
        rank: process.and_then(|process| process.rank),
        phase: phase.into(),
        window,
        found_by: None,
        count: 1,
        median_ms: ms,
        p99_ms: ms,
        mean_ms: ms,
        noise: None,
        gpu_busy_pct: None,
        gpu_busy_source: None,
        requests: None,
        path: Vec::new(),
        outliers: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{Caller, Syscall, ThreadWait};
    use gpuwhy_model::{OpId, Part as TimePart, Process, Reason, ServerSample};

    const MS: u64 = 1_000_000;

    /// An engine, started by an API server, that sleeps 20 of each 25 ms for 2 s.
    fn engine(servers: Vec<ServerSample>) -> Evidence {
        let mut evidence = Evidence { servers, ..Evidence::default() };
        evidence.span = Span { start_ns: 0, end_ns: 2_000 * MS };
        for (pid, parent_pid) in [(5, 1), (7, 5)] {
            evidence.processes.push(Process { pid, parent_pid, ..Process::default() });
        }
        let caller = Caller { pid: 7, calls: 1_000, first_ns: 0, last_ns: 2_000 * MS };
        evidence.activity.callers.insert(7, caller);
        evidence.activity.waits = (0..80)
            .map(|turn| ThreadWait {
                start_ns: turn * 25 * MS,
                end_ns: (turn * 25 + 20) * MS,
                pid: 7,
                tid: 7,
                part: TimePart::Blocked(Reason::Sleep),
                op: OpId::NONE,
                by_pid: 0,
                by_tid: 0,
                woken_by: None,
                syscall: Syscall::Other,
                object: None,
            })
            .collect();
        evidence
    }

    fn sample(pid: u32, end_ms: u64, requests: u64) -> ServerSample {
        let (time_ns, window_ns) = (end_ms * MS, 1_000 * MS);
        ServerSample {
            time_ns,
            window_ns,
            pid: Some(pid),
            requests: Some(requests),
            ..ServerSample::default()
        }
    }

    fn requests_of(servers: Vec<ServerSample>) -> Option<Requests> {
        let explanation = crate::explain(&engine(servers));
        let tree = explanation.steps.into_iter().find(|tree| tree.phase == "loop").unwrap();
        assert!((tree.mean_ms - 25.0).abs() < 0.1, "{tree:?}");
        tree.requests
    }

    #[test]
    fn requests_of_the_server_that_started_the_engine_share_its_loop() {
        let requests = requests_of(vec![sample(5, 1_000, 20), sample(5, 2_000, 20)]).unwrap();
        // The loop begins with the first step and ends with the last, so a little less than all.
        assert!((39..=40).contains(&requests.count), "{requests:?}");
        assert!((requests.ms - 50.0).abs() < 0.5, "{requests:?}");
        assert!((requests.steps.unwrap() - 2.0).abs() < 0.1, "{requests:?}");
    }

    #[test]
    fn requests_of_another_server_are_not_its_own() {
        assert_eq!(requests_of(vec![sample(9, 1_000, 20)]), None);
        assert_eq!(requests_of(vec![sample(5, 9_000, 20)]), None);
        assert_eq!(requests_of(Vec::new()), None);
    }
}
