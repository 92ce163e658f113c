//! All time of threads: calls, waits between calls and the code that ran, by thread and by phase.

use super::tree::Place;
use super::{Of, StackThread, StacksRequest, Weights};
use crate::QueryError;
use crate::between_calls::between_calls;
use crate::evidence::row::each_row;
use crate::evidence::threads as evidence_of_threads;
use crate::sampled::{Wanted, each_kept};
use crate::thread_names::thread_names;
use gpuwhy_model::{Cause, Span};
use gpuwhy_store::{Filter, Reader};
use std::collections::{BTreeMap, HashMap};

/// Of a process with a loop; the last is of one in which none was found.
const PHASES: [&str; 3] = ["start", "loop", "end"];
const NO_PHASE: usize = PHASES.len();

pub(super) fn time(
    reader: &Reader,
    request: &StacksRequest,
    span: Span,
    weights: &mut Weights,
    threads: &mut Vec<StackThread>,
) -> Result<bool, QueryError> {
    let loops = loops(reader)?;
    let phase = |pid: u32, time_ns: u64| phase_of(&loops, pid, time_ns);
    let mut found =
        Found { heads: Heads::of(reader)?, request, weights: &mut *weights, threads: BTreeMap::new() };
    let wanted = Wanted { span, pid: request.pid, op: request.op.as_deref() };
    let all = each_kept(reader, wanted, |call| {
        // What a library asks of the driver is within its own call.
        if call.of_driver {
            return;
        }
        let value = match &request.cause {
            None => 100.0,
            Some(class) => {
                call.causes.iter().filter(|(cause, _)| cause.name() == class).map(|(_, share)| share).sum()
            }
        } / 100.0
            * call.duration_ns as f64
            * call.weight;
        let at = (call.pid, call.tid, phase(call.pid, call.start_ns));
        found.add(at, call.stack_id, Place::word("op", call.op), (value, call.weight), true);
    })?;
    if request.op.is_none() {
        if request.cause.is_none() {
            collectives(reader, request, span, &phase, &mut found)?;
        }
        let filter = Filter {
            op: None,
            pid: request.pid,
            from_ns: Some(span.start_ns),
            to_ns: Some(span.end_ns.saturating_add(1)),
        };
        for one in between_calls::<QueryError>(reader, &filter, &phase, &mut || Ok(()))? {
            if request.cause.as_ref().is_some_and(|class| one.cause.name() != class) {
                continue;
            }
            let runs = matches!(one.cause, Cause::CpuSelf | Cause::PythonGc);
            let leaf = Place::word(if runs { "run" } else { "wait" }, one.what);
            let weight = (one.ns as f64, one.count as f64);
            found.add((one.pid, one.tid, one.phase), one.stack_id, leaf, weight, runs);
        }
    }
    let Found { heads, threads: sums, .. } = found;
    threads.extend(sums.into_iter().map(|((pid, tid), (ns, active_ns))| StackThread {
        pid,
        tid,
        name: heads.name(pid, tid),
        ns: ns as u64,
        active_ns: active_ns as u64,
    }));
    threads.sort_by(|a, b| b.active_ns.cmp(&a.active_ns).then(b.ns.cmp(&a.ns)).then(a.tid.cmp(&b.tid)));
    if let Some(busiest) = threads.first().filter(|_| request.busiest) {
        // A thread's number is in its name.
        let thread = Place::word("thread", &busiest.name);
        weights.retain(|of, _| of.head.first() == Some(&thread));
    }
    Ok(all)
}

/// Calls of collectives have a table of their own.
fn collectives(
    reader: &Reader,
    request: &StacksRequest,
    span: Span,
    phase: &dyn Fn(u32, u64) -> usize,
    found: &mut Found<'_>,
) -> Result<(), QueryError> {
    let pid = request.pid.map(|pid| format!(" AND pid = {pid}")).unwrap_or_default();
    let sql = format!(
        "SELECT timestamp_ns, duration_ns, pid, tid, ifnull(function, op), stack_id FROM nccl_events \
         WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2{pid} AND tid IS NOT NULL"
    );
    each_row(reader, &sql, [span.start_ns, span.end_ns.saturating_add(1)], |row| {
        let (pid, tid) = (row.id(2), row.id(3));
        let leaf = Place::word("op", row.text(4));
        let at = (pid, tid, phase(pid, row.number(0)));
        found.add(at, row.signed(5), leaf, (row.number(1) as f64, 1.0), true);
    })
}

/// When each process was in its loop, as `explain` has it.
fn loops(reader: &Reader) -> Result<HashMap<u32, Span>, QueryError> {
    // Of all of the trace: a part of it has other phases.
    let Some(whole) = reader.span()? else { return Ok(HashMap::new()) };
    Ok(gpuwhy_cause::loops(&evidence_of_threads(reader, whole)?).into_iter().collect())
}

/// A process without a loop, such as a loader's worker, works for one that has one.
fn phase_of(loops: &HashMap<u32, Span>, pid: u32, time_ns: u64) -> usize {
    let longest = || loops.values().max_by_key(|span| (span.ns(), span.start_ns));
    match loops.get(&pid).or_else(longest) {
        None => NO_PHASE,
        Some(span) if time_ns < span.start_ns => 0,
        Some(span) if time_ns <= span.end_ns => 1,
        Some(_) => 2,
    }
}

struct Found<'a> {
    heads: Heads,
    request: &'a StacksRequest,
    weights: &'a mut Weights,
    /// All time of a thread, and that in calls and running.
    threads: BTreeMap<(u32, u32), (f64, f64)>,
}

impl Found<'_> {
    fn add(
        &mut self,
        (pid, tid, phase): (u32, u32, usize),
        stack_id: Option<i64>,
        leaf: Place,
        (value, count): (f64, f64),
        is_active: bool,
    ) {
        if value <= 0.0 {
            return;
        }
        let thread = self.threads.entry((pid, tid)).or_default();
        thread.0 += value;
        thread.1 += if is_active { value } else { 0.0 };
        if self.request.tid.is_some_and(|wanted| wanted != tid) {
            return;
        }
        let of = Of { head: self.heads.head(pid, tid, phase), stack_id, leaf };
        let sum = self.weights.entry(of).or_default();
        *sum = (sum.0 + value, sum.1 + count);
    }
}

/// The outermost frames: thread and phase.
struct Heads {
    threads: HashMap<(u32, u32), String>,
    processes: HashMap<u32, String>,
}

impl Heads {
    fn of(reader: &Reader) -> Result<Heads, QueryError> {
        let processes = reader.processes()?.into_iter().map(|process| (process.pid, process.comm)).collect();
        Ok(Heads { threads: thread_names::<QueryError>(reader)?, processes })
    }

    /// As `pt_autograd_0[812] of python3[640]`.
    fn name(&self, pid: u32, tid: u32) -> String {
        let process = self.processes.get(&pid).map_or("process", String::as_str);
        let thread = self.threads.get(&(pid, tid)).map_or(process, String::as_str);
        match tid == pid {
            true => format!("{thread}[{pid}]"),
            false => format!("{thread}[{tid}] of {process}[{pid}]"),
        }
    }

    fn head(&self, pid: u32, tid: u32, phase: usize) -> Vec<Place> {
        let thread = Place::word("thread", self.name(pid, tid));
        let phase = PHASES.get(phase).map(|phase| Place::word("phase", *phase));
        [thread].into_iter().chain(phase).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_in_the_phase_of_the_loop_it_works_for() {
        let loops = HashMap::from([(7, Span { start_ns: 100, end_ns: 200 })]);
        assert_eq!([50, 100, 200, 201].map(|time_ns| phase_of(&loops, 7, time_ns)), [0, 1, 1, 2]);
        assert_eq!(phase_of(&loops, 8, 150), 1);
        assert_eq!(phase_of(&HashMap::new(), 8, 150), NO_PHASE);
    }
}
