//! How long threads were off the CPU inside their calls, of traces without the blame clock: the calls that are stored,
//! laid over the scheduler rows of the same thread.
//!
//! **Slow** is a stored call that took longer than three times the median of the stored calls of its operation by its
//! process, the measure by which Ingero itself stores calls. **Slow time** is the whole duration of those calls, not
//! only what exceeds the median. **Off CPU** is the part of it in which the calling thread, by the scheduler's rows, did
//! not have a CPU, for whatever reason. In the published vLLM trace that is 3% of the slow time of `cudaLaunchKernel` (2.99)
//! and 20% of that of `cuLaunchKernel` (20.38). Percentiles are nearest ranks among the stored calls.

use super::{Filter, Reader};
use crate::StoreError;
use rusqlite::params_from_iter;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A call is slow when it takes longer than so many medians.
const SLOW: u64 = 3;

/// The stored calls of one operation by one process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StoredCalls {
    /// Where rows name it.
    pub node: Option<String>,
    pub pid: u32,
    pub op: String,
    pub calls: u64,
    pub sum_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub slow_calls: u64,
    pub slow_ns: u64,
    /// Of the slow time: the calling thread was off the CPU.
    pub off_cpu_ns: u64,
    /// Of the slow time: no row tells of the calling thread's CPU at all, so nothing is known.
    pub unwatched_ns: u64,
    /// Of the slow time: the first launch of the process in the file, which loads what the kernel needs.
    pub cold_ns: u64,
}

impl StoredCalls {
    /// Share of the slow time, in percent; nothing where no thread was watched.
    pub fn off_cpu_pct(&self) -> Option<f64> {
        let watched = self.slow_ns > self.unwatched_ns;
        watched.then(|| 100.0 * self.off_cpu_ns as f64 / self.slow_ns as f64)
    }
}

/// From start until end.
type Stretch = (u64, u64);

/// One call, and by which thread.
#[derive(Debug, Clone)]
struct Stored {
    op: Name,
    pid: u32,
    thread: Thread,
    time: Stretch,
}

/// Node and number; numbers of several nodes may be the same.
type Thread = (Name, u32);

/// Place in [`Names`].
type Name = u32;

/// The few names that many rows have.
#[derive(Debug, Default)]
struct Names {
    places: HashMap<String, Name>,
    names: Vec<String>,
}

impl Names {
    fn place(&mut self, name: &str) -> Name {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len() as Name;
        self.places.insert(name.into(), place);
        self.names.push(name.into());
        place
    }

    fn of(&self, place: Name) -> String {
        self.names.get(place as usize).cloned().unwrap_or_default()
    }
}

impl Reader {
    /// Most slow time first. Empty for traces of gpuwhy: their calls have it in their blame, exactly.
    pub fn off_cpu_within(&self, filter: &Filter) -> Result<Vec<StoredCalls>, StoreError> {
        let Some(ingero) = &self.ingero else { return Ok(Vec::new()) };
        let (clause, values) = filter.clause("timestamp_ns");
        let sql = format!(
            "SELECT op, pid, tid, node, timestamp_ns, duration_ns FROM ({}){clause}",
            ingero.calls_sql
        );
        let mut names = Names::default();
        let mut calls = Vec::new();
        self.each(
            &sql,
            params_from_iter(values),
            |row| {
                Ok(Stored {
                    op: names.place(row.get_ref(0)?.as_str()?),
                    pid: row.get(1)?,
                    thread: (names.place(row.get_ref(3)?.as_str()?), row.get(2)?),
                    time: stretch(row.get(4)?, row.get(5)?),
                })
            },
            |call| calls.push(call),
        )?;
        let mut waits: HashMap<Thread, Vec<Stretch>> = HashMap::new();
        self.each(
            &ingero.waits_sql,
            [],
            |row| {
                let thread = (names.place(row.get_ref(0)?.as_str()?), row.get(1)?);
                Ok((thread, stretch(row.get(2)?, row.get(3)?)))
            },
            |(thread, wait)| waits.entry(thread).or_default().push(wait),
        )?;
        Ok(within(&calls, waits, &names))
    }
}

fn stretch(start: i64, duration: i64) -> Stretch {
    let start = start.max(0) as u64;
    (start, start.saturating_add(duration.max(0) as u64))
}

/// What the module says, of all calls and all times in which threads were off the CPU.
fn within(calls: &[Stored], waits: HashMap<Thread, Vec<Stretch>>, names: &Names) -> Vec<StoredCalls> {
    let waits: HashMap<Thread, Vec<Stretch>> =
        waits.into_iter().map(|(thread, waits)| (thread, apart(waits))).collect();
    let mut groups: BTreeMap<(Name, u32, Name), Vec<(Thread, Stretch)>> = BTreeMap::new();
    let mut first_launches: HashMap<(Name, u32), (u64, Name)> = HashMap::new();
    for call in calls.iter().filter(|call| names.of(call.op).contains("Launch")) {
        let first = first_launches.entry((call.thread.0, call.pid)).or_insert((call.time.0, call.op));
        *first = (*first).min((call.time.0, call.op));
    }
    for call in calls {
        groups.entry((call.thread.0, call.pid, call.op)).or_default().push((call.thread, call.time));
    }
    let mut sums: Vec<StoredCalls> = groups
        .into_iter()
        .map(|((node, pid, op), calls)| {
            let first = first_launches.get(&(node, pid)).copied();
            let node = Some(names.of(node)).filter(|node| !node.is_empty());
            let stored = StoredCalls { node, pid, op: names.of(op), ..StoredCalls::default() };
            sum(stored, &calls, &waits, first.filter(|(_, of)| *of == op).map(|(start, _)| start))
        })
        .collect();
    sums.sort_by(|a, b| b.slow_ns.cmp(&a.slow_ns).then(b.sum_ns.cmp(&a.sum_ns)).then(a.op.cmp(&b.op)));
    sums
}

fn sum(
    mut sum: StoredCalls,
    calls: &[(Thread, Stretch)],
    waits: &HashMap<Thread, Vec<Stretch>>,
    first_launch_ns: Option<u64>,
) -> StoredCalls {
    let mut durations: Vec<u64> = calls.iter().map(|(_, (start, end))| end - start).collect();
    durations.sort_unstable();
    sum.calls = durations.len() as u64;
    sum.sum_ns = durations.iter().sum();
    sum.p50_ns = rank(&durations, 50);
    sum.p99_ns = rank(&durations, 99);
    sum.max_ns = durations.last().copied().unwrap_or(0);
    for (thread, (start, end)) in calls {
        if end - start <= sum.p50_ns.saturating_mul(SLOW) {
            continue;
        }
        sum.slow_calls += 1;
        sum.slow_ns += end - start;
        if first_launch_ns == Some(*start) {
            sum.cold_ns = end - start;
        }
        match waits.get(thread) {
            Some(waits) => sum.off_cpu_ns += overlap((*start, *end), waits),
            None => sum.unwatched_ns += end - start,
        }
    }
    sum
}

/// The smallest value that so many percent of all values do not exceed.
fn rank(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

/// In order, and none within another: lost rows leave stretches that overlap.
fn apart(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.sort_unstable();
    let mut apart: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for (start, end) in stretches {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart
}

/// How much of a stretch lies in others that are in order and apart.
fn overlap((start, end): Stretch, others: &[Stretch]) -> u64 {
    let first = others.partition_point(|other| other.1 <= start);
    others[first..]
        .iter()
        .take_while(|other| other.0 < end)
        .map(|other| other.1.min(end) - other.0.max(start))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One operation, on a node without a name.
    fn names() -> Names {
        let mut names = Names::default();
        assert_eq!((names.place(""), names.place("f"), names.place("")), (0, 1, 0));
        names
    }

    fn call(pid: u32, tid: u32, start: u64, duration: u64) -> Stored {
        Stored { op: 1, pid, thread: (0, tid), time: (start, start + duration) }
    }

    fn off(tid: u32, waits: &[Stretch]) -> (Thread, Vec<Stretch>) {
        ((0, tid), waits.to_vec())
    }

    #[test]
    fn only_slow_calls_are_laid_over_the_waits_of_their_own_thread() {
        let mut calls: Vec<Stored> = (0..9).map(|n| call(1, 1, n * 100, 10)).collect();
        calls.push(call(1, 1, 2000, 1000));
        let waits = [off(1, &[(0, 5), (1990, 2010), (2500, 2600), (2990, 4000)]), off(2, &[(0, 9000)])];
        let sums = within(&calls, waits.into_iter().collect(), &names());
        assert_eq!(
            sums,
            [StoredCalls {
                node: None,
                pid: 1,
                op: "f".into(),
                calls: 10,
                sum_ns: 1090,
                p50_ns: 10,
                p99_ns: 1000,
                max_ns: 1000,
                slow_calls: 1,
                slow_ns: 1000,
                off_cpu_ns: 120,
                unwatched_ns: 0,
                cold_ns: 0,
            }]
        );
        assert_eq!(sums[0].off_cpu_pct(), Some(12.0));
    }

    #[test]
    fn the_first_launch_of_a_process_is_cold_and_a_later_slow_one_is_not() {
        let mut names = Names::default();
        assert_eq!((names.place(""), names.place("cuLaunchKernel")), (0, 1));
        let mut calls: Vec<Stored> = (1..20).map(|n| call(1, 7, n * 10_000, 10)).collect();
        calls.push(call(1, 7, 0, 5000));
        calls.push(call(1, 7, 500_000, 3000));
        let sums = within(&calls, HashMap::new(), &names);
        assert_eq!((sums[0].slow_calls, sums[0].slow_ns, sums[0].cold_ns), (2, 8000, 5000));
    }

    #[test]
    fn a_thread_without_rows_is_not_known_to_have_been_on_the_cpu() {
        let mut calls: Vec<Stored> = (0..9).map(|n| call(1, 7, n * 100, 10)).collect();
        calls.push(call(1, 7, 2000, 50));
        let sums = within(&calls, [off(1, &[(0, 9000)])].into_iter().collect(), &names());
        assert_eq!((sums[0].slow_ns, sums[0].off_cpu_ns, sums[0].unwatched_ns), (50, 0, 50));
        assert_eq!(sums[0].off_cpu_pct(), None);
    }

    #[test]
    fn exactly_three_medians_are_not_slow() {
        let calls = vec![call(1, 1, 0, 10), call(1, 1, 20, 10), call(1, 1, 40, 30), call(1, 1, 90, 31)];
        let sums = within(&calls, HashMap::new(), &names());
        assert_eq!((sums[0].slow_calls, sums[0].slow_ns), (1, 31));
    }

    #[test]
    fn waits_that_overlap_count_once() {
        assert_eq!(apart(vec![(10, 20), (0, 5), (15, 18), (19, 30)]), [(0, 5), (10, 30)]);
        assert_eq!(overlap((12, 40), &apart(vec![(10, 20), (15, 18), (19, 30)])), 18);
        assert_eq!(overlap((5, 10), &[(0, 5), (10, 30)]), 0);
        assert_eq!(overlap((6, 7), &[(0, 50)]), 1);
    }
}
