//! What threads did between GPU calls, by stack: their waits and the code they ran. How long a thread waited is clocked, wait by wait;
//! which line waited, and which code ran, comes from samples.

use gpuwhy_model::{Cause, Part, Reason};
use gpuwhy_store::{Filter, Reader, Record, StoreError, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Files without weights sampled four times a second.
const OLD_WEIGHT_NS: u64 = 250_000_000;

/// Time of a thread between calls, summed by stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BetweenCalls {
    pub pid: u32,
    pub tid: u32,
    /// As the caller divides the time.
    pub phase: usize,
    /// As `waits: futex` or `runs`.
    pub what: String,
    pub cause: Cause,
    /// Nothing where no sample met such a wait.
    pub stack_id: Option<i64>,
    pub ns: u64,
    /// Waits, or samples of running code.
    pub count: u64,
}

/// A thread, a phase, and what it waited for.
type Waited = (u32, u32, usize, &'static str);
type Ran = (u32, u32, usize, &'static str, Cause, Option<i64>);

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    ns: u64,
    count: u64,
}

#[derive(Debug, Default)]
struct Gathered {
    waits: BTreeMap<(Waited, Cause), Sum>,
    /// By stack, the time that samples of a wait stand for.
    samples: HashMap<Waited, BTreeMap<i64, u64>>,
    runs: BTreeMap<Ran, Sum>,
}

/// `phase` says which part of the time a moment of a process belongs to; `row` is called for each row that is read, and may stop.
pub fn between_calls<E: From<StoreError>>(
    reader: &Reader,
    filter: &Filter,
    phase: &dyn Fn(u32, u64) -> usize,
    row: &mut dyn FnMut() -> Result<(), E>,
) -> Result<Vec<BetweenCalls>, E> {
    if !reader.origin().has_blame() {
        return Ok(Vec::new());
    }
    let mut gathered = Gathered::default();
    read_waits(reader, filter, phase, row, &mut gathered)?;
    let sampled = read_runs(reader, filter, phase, row, &mut gathered)?;
    read_samples(reader, filter, phase, row, &sampled, &mut gathered)?;
    Ok(gathered.shared())
}

/// The condition that a filter is, and that it was between calls; and its values.
fn between(filter: &Filter) -> (String, Vec<Value>) {
    let (clause, values) = Filter { op: None, ..filter.clone() }.clause("timestamp_ns");
    let joined = if clause.is_empty() { " WHERE".to_string() } else { format!("{clause} AND") };
    (format!("{joined} op IS NULL"), values)
}

fn read_waits<E: From<StoreError>>(
    reader: &Reader,
    filter: &Filter,
    phase: &dyn Fn(u32, u64) -> usize,
    row: &mut dyn FnMut() -> Result<(), E>,
    gathered: &mut Gathered,
) -> Result<(), E> {
    let (clause, values) = between(filter);
    for (table, by) in
        [("sched_events", "by_pid"), ("io_events", "0"), ("net_events", "0"), ("mem_events", "0")]
    {
        let sql = format!(
            "SELECT pid, tid, timestamp_ns, event, duration_ns, {by} FROM {table}{clause} AND duration_ns > 0"
        );
        reader.stream::<E>(&sql, &values, |record| {
            row()?;
            let event = record.text(3).unwrap_or_default();
            let Some(part) = part_of(&event) else { return Ok(()) };
            let (pid, tid) = (number(&record, 0) as u32, number(&record, 1) as u32);
            let waited = (pid, tid, phase(pid, number(&record, 2)), part.name());
            let cause = Cause::of_part(None, part, number(&record, 5) as u32);
            let sum = gathered.waits.entry((waited, cause)).or_default();
            sum.ns = sum.ns.saturating_add(number(&record, 4));
            sum.count += 1;
            Ok(())
        })?;
    }
    Ok(())
}

/// Events are named as parts of a call's time are, with one exception; a disk's request and a kill are no waits of a thread. A wait of
/// an unknown kind is still a wait.
fn part_of(event: &str) -> Option<Part> {
    match event {
        "preempted" => Some(Part::Runnable),
        "request" | "oom_kill" => None,
        name => Some(Part::of_name(name).unwrap_or(Part::Blocked(Reason::Other))),
    }
}

/// Code that ran; the threads that were sampled so.
fn read_runs<E: From<StoreError>>(
    reader: &Reader,
    filter: &Filter,
    phase: &dyn Fn(u32, u64) -> usize,
    row: &mut dyn FnMut() -> Result<(), E>,
    gathered: &mut Gathered,
) -> Result<BTreeSet<u32>, E> {
    let (clause, values) = Filter { op: None, ..filter.clone() }.clause("timestamp_ns");
    let sql = format!(
        "SELECT pid, tid, timestamp_ns, weight_ns, kernel, gc, stack_id, op IS NULL FROM cpu_samples{clause}"
    );
    let mut sampled = BTreeSet::new();
    reader.stream::<E>(&sql, &values, |record| {
        row()?;
        let (pid, tid) = (number(&record, 0) as u32, number(&record, 1) as u32);
        sampled.insert(tid);
        // What ran within a call is the call's time.
        if number(&record, 7) == 0 {
            return Ok(());
        }
        let (what, cause) = match (number(&record, 4), number(&record, 5)) {
            (_, 1) => ("runs: garbage collection", Cause::PythonGc),
            (1, _) => ("runs: kernel", Cause::CpuSelf),
            _ => ("runs", Cause::CpuSelf),
        };
        let of = (pid, tid, phase(pid, number(&record, 2)), what, cause, record.integer(6));
        let sum = gathered.runs.entry(of).or_default();
        sum.ns = sum.ns.saturating_add(number(&record, 3));
        sum.count += 1;
        Ok(())
    })?;
    Ok(sampled)
}

/// Where waits stood. A thread that was met running counts where nothing else tells what it ran.
fn read_samples<E: From<StoreError>>(
    reader: &Reader,
    filter: &Filter,
    phase: &dyn Fn(u32, u64) -> usize,
    row: &mut dyn FnMut() -> Result<(), E>,
    sampled: &BTreeSet<u32>,
    gathered: &mut Gathered,
) -> Result<(), E> {
    let (clause, values) = between(filter);
    let sql = format!(
        "SELECT pid, tid, timestamp_ns, reason, coalesce(weight_ns, {OLD_WEIGHT_NS}), stack_id FROM wait_samples{clause}"
    );
    reader.stream::<E>(&sql, &values, |record| {
        row()?;
        let (pid, tid) = (number(&record, 0) as u32, number(&record, 1) as u32);
        let phase = phase(pid, number(&record, 2));
        let weight_ns = number(&record, 4);
        match Part::of_name(&record.text(3).unwrap_or_default()) {
            Some(Part::OnCpu) if sampled.contains(&tid) => {}
            Some(Part::OnCpu) => {
                let of = (pid, tid, phase, "runs", Cause::CpuSelf, record.integer(5));
                let sum = gathered.runs.entry(of).or_default();
                sum.ns = sum.ns.saturating_add(weight_ns);
                sum.count += 1;
            }
            Some(part) => {
                let Some(stack_id) = record.integer(5) else { return Ok(()) };
                let stacks = gathered.samples.entry((pid, tid, phase, part.name())).or_default();
                let sum = stacks.entry(stack_id).or_default();
                *sum = sum.saturating_add(weight_ns);
            }
            None => {}
        }
        Ok(())
    })
}

impl Gathered {
    /// The clocked time of each wait, divided among its stacks as the samples were.
    fn shared(self) -> Vec<BetweenCalls> {
        let mut all = Vec::new();
        for ((waited, cause), sum) in self.waits {
            let (pid, tid, phase, reason) = waited;
            // A thread that has used up its quota is met as one that wants a CPU.
            let throttled = Part::Blocked(Reason::Throttled).name();
            let seen = if reason == throttled { Part::Runnable.name() } else { reason };
            let stacks = self.samples.get(&(pid, tid, phase, seen));
            let what = match reason == Part::Runnable.name() {
                true => "waits: its CPU".to_string(),
                false => format!("waits: {reason}"),
            };
            for (stack_id, Sum { ns, count }) in divided(sum, stacks) {
                all.push(BetweenCalls { pid, tid, phase, what: what.clone(), cause, stack_id, ns, count });
            }
        }
        for ((pid, tid, phase, what, cause, stack_id), Sum { ns, count }) in self.runs {
            all.push(BetweenCalls { pid, tid, phase, what: what.into(), cause, stack_id, ns, count });
        }
        all.sort();
        all
    }
}

/// The last part gets what rounding left over, so that the parts sum to the whole.
fn divided(whole: Sum, stacks: Option<&BTreeMap<i64, u64>>) -> Vec<(Option<i64>, Sum)> {
    let weight: u128 = stacks.iter().flat_map(|stacks| stacks.values()).map(|ns| u128::from(*ns)).sum();
    let Some(stacks) = stacks.filter(|_| weight > 0) else { return vec![(None, whole)] };
    let mut left = whole;
    let mut parts: Vec<(Option<i64>, Sum)> = Vec::new();
    for (at, (stack_id, ns)) in stacks.iter().enumerate() {
        let share = |of: u64| (u128::from(of) * u128::from(*ns) / weight) as u64;
        let part = match at + 1 == stacks.len() {
            true => left,
            false => Sum { ns: share(whole.ns), count: share(whole.count) },
        };
        left = Sum { ns: left.ns - part.ns, count: left.count - part.count };
        parts.push((Some(*stack_id), part));
    }
    parts
}

fn number(record: &Record<'_>, at: usize) -> u64 {
    record.integer(at).unwrap_or(0).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocked_time_is_divided_as_the_samples_were_and_nothing_is_left_over() {
        let stacks = BTreeMap::from([(1, 10), (2, 20), (3, 3)]);
        let parts = divided(Sum { ns: 1_000, count: 7 }, Some(&stacks));
        let ns: Vec<(Option<i64>, u64)> = parts.iter().map(|(stack, sum)| (*stack, sum.ns)).collect();
        assert_eq!(ns, [(Some(1), 303), (Some(2), 606), (Some(3), 91)]);
        assert_eq!(parts.iter().map(|(_, sum)| sum.count).sum::<u64>(), 7);
    }

    #[test]
    fn a_wait_that_no_sample_met_has_no_stack() {
        let parts = divided(Sum { ns: 5, count: 1 }, None);
        assert!(matches!(parts[..], [(None, Sum { ns: 5, count: 1 })]));
    }
}
