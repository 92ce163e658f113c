//! What the time of a loop goes to, along the critical path: one finding for each part that is worth removing.

mod culprits;
mod launching;
mod once;

use super::Rule;
use crate::attribution::Attribution;
use crate::case::Case;
use crate::draft::{Draft, at, place_of_stack, seconds};
use crate::fixes::fixes;
use crate::path::{
    Key, Part, ProcessPath, Scale, Whole, describe, hidden, is_sampled, main_op, who, whole_parts,
};
use crate::severity::{of_taken, percent};
use culprits::{add_way, name_culprits};
use gpuwhy_model::{Cause, Place, Severity, Span, units};
use launching::launching;
use once::of_start_and_end;

pub(super) const RULE: Rule = Rule {
    name: "critical_path",
    about: "what a process's steps wait for, walked backwards along the wake-ups through threads and processes: the end of that \
            path, who is there, and the line",
    causes: &[
        Cause::SelfSleep,
        Cause::CpuSelf,
        Cause::PythonGc,
        Cause::PythonGil,
        Cause::ProcWait,
        Cause::LockFutex,
        Cause::IoBlock,
        Cause::IoFile,
        Cause::NetWait,
        Cause::CpuPreempted,
        Cause::CpuThrottled,
        Cause::CpuInterrupt,
        Cause::MemFault,
        Cause::MemReclaim,
        Cause::GpuWait,
        Cause::GpuAlloc,
        Cause::GpuColdstart,
        Cause::CopyPcie,
        Cause::GraphRecapture,
        Cause::LaunchBound,
    ],
    threshold: "3% of the loop, or one stall of 250 ms. Severity by what a step would save: medium from 5% on, high from 20%, critical \
                from 50%; time hidden behind a busy GPU saves nothing. Launching, and waiting for a GPU that works, is how a program is built: low, and \
                tagged `by_design`",
    refuted_by: "the same loop without that part being as slow",
    find,
};

/// Smaller parts are in the tree.
const MIN_SHARE_PCT: f64 = 3.0;
/// Computing below this share is no fault.
const MIN_COMPUTING_PCT: f64 = 8.0;
/// One stall of this length is told whatever its share.
const STALL_NS: u64 = 250_000_000;
/// A part most of whose time is in steps far longer than the others is not what every step pays.
const MOSTLY: f64 = 0.7;
/// From here on the GPU is the limit.
const BUSY_PCT: f64 = 80.0;

fn find(case: &Case<'_>) -> Vec<Draft> {
    case.paths.iter().flat_map(|path| of_process(case, path)).collect()
}

fn of_process(case: &Case<'_>, path: &ProcessPath) -> Vec<Draft> {
    let scale = Scale::of_loop(path);
    let mut drafts = Vec::new();
    for whole in &whole_parts(case, path, &path.loop_parts) {
        if matches!(whole.key.class, Cause::LaunchBound | Cause::Unknown) {
            continue;
        }
        let stalls = Stalls::of(path, whole);
        let is_stall = stalls.as_ref().is_some_and(|stalls| stalls.longest_ns >= STALL_NS);
        if percent(whole.part.ns, scale.whole_ns) >= MIN_SHARE_PCT || is_stall {
            drafts.push(draft(case, path, scale, whole, stalls));
        }
    }
    drafts.extend(launching(case, path, scale));
    drafts.extend(of_start_and_end(case, path));
    drafts
}

/// Of a part that is in few steps only: how many, and when.
struct Stalls {
    count: usize,
    longest_ns: u64,
    window: Span,
    first_ns: u64,
}

impl Stalls {
    fn is_one_short(&self) -> bool {
        self.count == 1 && self.longest_ns < STALL_NS
    }

    fn of(path: &ProcessPath, whole: &Whole) -> Option<Stalls> {
        let usual_ns = path.turns.as_ref().map_or(0, |turns| turns.median_ns);
        let hit: Vec<(&Span, u64)> = path
            .outliers
            .iter()
            .map(|turn| (&turn.span, whole.ns_in(&turn.parts)))
            .filter(|(_, ns)| *ns > 0)
            // Its share of a long step: what the step would take anyway is not the stall.
            .filter(|(span, ns)| *ns * 2 >= span.ns().saturating_sub(usual_ns))
            .collect();
        let stalled: u64 = hit.iter().map(|(_, ns)| *ns).sum();
        if hit.is_empty() || (stalled as f64) < MOSTLY * whole.part.ns as f64 {
            return None;
        }
        let (longest, longest_ns) = hit.iter().max_by_key(|(_, ns)| *ns)?;
        Some(Stalls {
            count: hit.len(),
            longest_ns: *longest_ns,
            first_ns: longest.start_ns,
            window: Span {
                start_ns: hit.iter().map(|(span, _)| span.start_ns).min()?,
                end_ns: hit.iter().map(|(span, _)| span.end_ns).max()?,
            },
        })
    }
}

fn draft(case: &Case<'_>, path: &ProcessPath, scale: Scale, whole: &Whole, stalls: Option<Stalls>) -> Draft {
    let Whole { key, part, .. } = whole;
    let pid = path.pid;
    let is_shared = key.class == Cause::GpuWait && !path.sharers.is_empty();
    let saves = match is_shared {
        // The GPU serves its processes in turns: without the others the wait would be shorter by their turns.
        true => {
            let others = path.sharers.len() as u64;
            let theirs = part.ns * others / (others + 1);
            [theirs / 2, theirs]
        }
        false => {
            let own_turns = own_turns(case, path.pid, key, part);
            let saves = whole.saves_ns(case, path, &scale);
            saves.map(|ns| ns.saturating_sub(own_turns))
        }
    };
    let mut attribution = Attribution::default();
    attribution.add(key.class, part.ns);
    name_culprits(case, path, key, part, &mut attribution);
    add_way(case, path, key, &mut attribution);
    let mut place = place_of_stack(case, part.stack_id);
    if key.class == Cause::PythonGil
        && let Some(holder) =
            part.by.iter().max_by_key(|(_, ns)| **ns).and_then(|((_, tid), _)| path.hottest.get(tid))
    {
        // What the holder computes is the reason; where the others wait is by chance.
        attribution.note(key.class, format!("most of the waits are{}", at(&place)));
        place = place_of_stack(case, Some(*holder));
    }
    if place.python.is_empty() {
        // No line of its own: where the program waits for it, or for another that does the same.
        let ways = std::iter::once(key).chain(&whole.members).filter_map(|key| path.ways.get(&key.tid));
        let lines = ways.map(|way| place_of_stack(case, way.stack_id).python);
        place.python = lines.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default();
    }
    let share = percent(part.ns, scale.whole_ns);
    let mut what = format!("{}{}", describe(case, key, part), at(&place));
    if is_shared {
        let others: Vec<String> = path.sharers.iter().map(|other| case.name(*other)).collect();
        what += &format!(", which {} uses too", others.join(", "));
    }
    let subject = subject(case, pid, key, part);
    let title = match (&stalls, &path.turns) {
        (Some(stalls), _) if stalls.count == 1 => format!(
            "{} stalled for {} at {}: {}{what}",
            case.name(pid),
            seconds(stalls.longest_ns),
            units::time_of_day(stalls.first_ns),
            elsewhere(case, pid, key, part),
        ),
        (Some(stalls), _) => format!(
            "{} stalled {} times, {} in all, the longest {} at {}: {}{what}",
            case.name(pid),
            stalls.count,
            seconds(part.ns),
            seconds(stalls.longest_ns),
            units::time_of_day(stalls.first_ns),
            elsewhere(case, pid, key, part),
        ),
        (None, Some(turns)) => format!(
            "{subject} {what}: {} of each step of {} ({share:.0}%)",
            seconds((part.ns as f64 / scale.count) as u64),
            seconds(turns.mean_ns),
        ),
        (None, None) => {
            format!("{subject} {what}: {} of {} ({share:.0}%)", seconds(part.ns), seconds(scale.whole_ns))
        }
    };
    if let Some(why) =
        hidden(key.class, part.ns, saves, path.busy_pct).filter(|_| stalls.is_none() && !is_shared)
    {
        let saved = seconds((saves[1] as f64 / scale.count) as u64);
        attribution.note(key.class, format!("{why}: a step takes {saved} less without it at most"));
    }
    let mut severity = match is_shared {
        true => of_taken((saves[0] + saves[1]) / 2, scale.whole_ns),
        // What is loaded once is no fault of the loop, however long it took.
        false if key.class == Cause::GpuColdstart && is_one_load(case, path.pid, part.ns) => Severity::Low,
        // Every Python program has its whole heap collected now and then.
        false if key.class == Cause::PythonGc && stalls.as_ref().is_some_and(Stalls::is_one_short) => {
            Severity::Low
        }
        false => severity(path, key.class, saves, scale),
    };
    if let Some(stalls) = stalls.as_ref().filter(|stalls| stalls.longest_ns >= STALL_NS) {
        severity = severity.min(Severity::Medium);
        if let Some(turns) = path.turns.as_ref().filter(|turns| turns.is_complete) {
            let (count, of) = (stalls.count, turns.count);
            attribution.note(key.class, format!("{count} of {of} steps took more than 4 times the median"));
        }
    }
    // Waits for the GPU are told apart by the call that waits.
    let op = main_op(case, part).filter(|_| key.class == Cause::GpuWait);
    Draft {
        severity: Some(severity),
        title,
        op: op.map(ToString::to_string),
        pid: Some(pid),
        window: Some(stalls.map_or(path.phases.repeats, |stalls| stalls.window)),
        of_ns: Some(scale.whole_ns),
        saves_ms: Some(saves.map(|ns| ns as f64 / 1e6 / scale.count)),
        explained_pct: explained_pct(key, &place),
        by_design: by_design(path, key.class, is_shared),
        fixes: fixes(case, pid, &attribution),
        sql: sql(key),
        attribution,
        place,
        ..Draft::default()
    }
}

/// Of time without a CPU: what the process's own threads had it meanwhile, which is how its work is divided, and no neighbour's;
/// and the tracer's, which ends with the trace.
fn own_turns(case: &Case<'_>, pid: u32, key: &Key, part: &Part) -> u64 {
    let is_tracer = |tid: &u32| {
        let thread = case.evidence.activity.threads.get(tid);
        thread.is_some_and(|thread| thread.comm == "gpuwhy" || thread.comm.starts_with("gpuwhy-"))
    };
    let is_own = |of: &u32, tid: &u32| *of == pid || is_tracer(tid);
    match key.class {
        Cause::CpuPreempted => {
            part.by.iter().filter(|((of, tid), _)| is_own(of, tid)).map(|(_, ns)| ns).sum()
        }
        _ => 0,
    }
}

/// Whether most of the loading was one call.
fn is_one_load(case: &Case<'_>, pid: u32, ns: u64) -> bool {
    let calls = case.evidence.cold_calls.iter().filter(|call| call.pid == pid);
    calls.map(|call| call.duration_ns).max().is_some_and(|longest| longest * 2 >= ns)
}

/// Shows what the thread at the end of the path did: the lines it ran, or its waits.
fn sql(key: &Key) -> String {
    let tid = key.tid;
    match is_sampled(key.class) {
        true => format!(
            "SELECT f.file, f.line, f.function, count(*) AS samples FROM (SELECT tid, stack_id FROM cpu_samples UNION ALL \
             SELECT tid, stack_id FROM wait_samples WHERE reason = 'on_cpu') s JOIN frames f USING (stack_id) \
             WHERE s.tid = {tid} AND f.depth = (SELECT min(depth) FROM frames p WHERE p.stack_id = s.stack_id AND p.kind = 'python') \
             GROUP BY 1, 2, 3 ORDER BY samples DESC LIMIT 20"
        ),
        false => {
            let tables = ["sched_events", "io_events", "net_events"].map(|table| {
                format!("SELECT event, by_pid, by_comm, duration_ns FROM {table} WHERE tid = {tid}")
            });
            format!(
                "SELECT event, by_pid, by_comm, count(*) AS waits, sum(duration_ns) / 1e6 AS ms FROM ({}) \
                 GROUP BY 1, 2, 3 ORDER BY ms DESC LIMIT 20",
                tables.join(" UNION ALL ")
            )
        }
    }
}

/// `logger (123) of python3[99] ` where it is not the main thread of the process itself.
fn elsewhere(case: &Case<'_>, pid: u32, key: &Key, part: &Part) -> String {
    if key.tid == pid { String::new() } else { format!("{} ", all_of(case, key, part)) }
}

/// `python3[7] is`, or whom it waits for: what follows says what that one does.
fn subject(case: &Case<'_>, pid: u32, key: &Key, part: &Part) -> String {
    match key.tid == pid {
        true => format!("{} is", case.name(pid)),
        false => format!("{} waits for {}:", case.name(pid), all_of(case, key, part)),
    }
}

/// Where a thread computes is all there is to know of it.
fn explained_pct(key: &Key, place: &Place) -> Option<f64> {
    let is_placed = !(place.python.is_empty() && place.native.is_empty());
    (key.class == Cause::CpuSelf && is_placed).then_some(100.0)
}

/// `pt_data_worker[99] and 3 more` where several do the same.
fn all_of(case: &Case<'_>, key: &Key, part: &Part) -> String {
    let first = who(case, key.tid);
    match part.others.len() {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

/// How the program is built, where that is why the time goes there, and nothing departs from normal.
fn by_design(path: &ProcessPath, class: Cause, is_shared: bool) -> Option<&'static str> {
    let gpu_is_busy = path.busy_pct.is_some_and(|pct| pct >= BUSY_PCT) || path.proven_busy_pct >= BUSY_PCT;
    match class {
        // The GPU is the limit: that is what it is for. So it may be where no counter says how busy it was.
        Cause::GpuWait if !is_shared && (gpu_is_busy || path.busy_pct.is_none()) => Some("GPU bound"),
        // Without steps this may be a server that has no requests.
        Cause::NetWait if path.turns.is_none() => Some("waits for requests"),
        _ => None,
    }
}

/// By what would be saved, not by what kind of thing it is.
fn severity(path: &ProcessPath, class: Cause, saves: [u64; 2], scale: Scale) -> Severity {
    let by_saving = of_taken((saves[0] + saves[1]) / 2, scale.whole_ns);
    match class {
        class if by_design(path, class, false).is_some() => Severity::Low,
        // Every program computes a little between its launches.
        Cause::CpuSelf if percent((saves[0] + saves[1]) / 2, scale.whole_ns) < MIN_COMPUTING_PCT => {
            Severity::Low
        }
        _ => by_saving,
    }
}
