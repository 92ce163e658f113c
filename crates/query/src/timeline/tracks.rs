//! What tracks are made from: kept calls, sums, waits, streams, collectives and annotations.

use super::TrackKind;
use super::thin::{Happened, Key, Names, Thinner};
use crate::QueryError;
use crate::evidence::row::{Row, each_row};
use crate::sampled::{Wanted, each_kept};
use crate::thread_names::thread_names;
use gpuwhy_cause::shares_by_cause;
use gpuwhy_model::{Blame, Cause, OpInfo, Reason};
use gpuwhy_store::Reader;
use std::collections::HashMap;

/// Of single events of one table no more than this are read, the first ones.
const MAX_EVENTS: u32 = 50_000;

/// Fills the tracks; whether all kept calls of the time were read.
pub(super) fn read(reader: &Reader, pid: Option<u32>, thinner: &mut Thinner) -> Result<bool, QueryError> {
    let source =
        Source { reader, pid, times: [thinner.span().start_ns, thinner.span().end_ns.saturating_add(1)] };
    source.annotations(thinner)?;
    source.processes(thinner)?;
    let all = threads(reader, pid, thinner)?;
    source.waits(thinner)?;
    source.streams(thinner)?;
    source.ranks(thinner)?;
    Ok(all)
}

pub(super) fn names(reader: &Reader) -> Result<Names, QueryError> {
    let mut names = Names::default();
    for process in reader.processes()? {
        names.processes.insert(process.pid, process.comm);
    }
    names.threads = thread_names::<QueryError>(reader)?;
    Ok(names)
}

fn threads(reader: &Reader, pid: Option<u32>, thinner: &mut Thinner) -> Result<bool, QueryError> {
    let wanted = Wanted { span: thinner.span(), pid, op: None };
    each_kept(reader, wanted, |call| {
        let ns = |share: f64| (share / 100.0 * call.duration_ns as f64) as u64;
        let blame: Vec<(Cause, u64)> =
            call.causes.iter().map(|(cause, share)| (*cause, ns(*share))).collect();
        let key = Key { tid: Some(call.tid), ..Key::new(TrackKind::Thread, call.pid) };
        thinner.add(
            key,
            &Happened {
                start_ns: call.start_ns,
                length_ns: call.duration_ns,
                name: call.op,
                count: 1,
                busy_ns: call.duration_ns,
                longest_ns: call.duration_ns,
                errors: u64::from(call.failed),
                blame: &blame,
                stack_id: call.stack_id,
                summed: false,
            },
        );
    })
}

struct Source<'a> {
    reader: &'a Reader,
    pid: Option<u32>,
    times: [u64; 2],
}

impl Source<'_> {
    fn conditions(&self, time: &str) -> String {
        let pid = self.pid.map(|pid| format!(" AND pid = {pid}")).unwrap_or_default();
        format!("WHERE {time} >= ?1 AND {time} < ?2{pid}")
    }

    fn each(&self, sql: &str, visit: impl FnMut(&Row<'_>)) -> Result<(), QueryError> {
        each_row(self.reader, sql, self.times, visit)
    }

    /// Exact, from the sums of all calls.
    fn processes(&self, thinner: &mut Thinner) -> Result<(), QueryError> {
        let ops: HashMap<String, OpInfo> =
            self.reader.ops()?.into_iter().map(|op| (op.name.clone(), op)).collect();
        let reasons = Reason::ALL.map(|reason| format!("sum({})", reason.column())).join(", ");
        let step = thinner.step_ns();
        let sql = format!(
            "SELECT min(window_start_ns), max(window_start_ns + window_ns), pid, op, sum(count), sum(sum_ns), max(max_ns), \
             sum(errors), sum(oncpu_ns), sum(runq_ns), {reasons} FROM call_stats {} \
             GROUP BY pid, op, (window_start_ns - ?1) / {step}",
            self.conditions("window_start_ns")
        );
        self.each(&sql, |row| {
            let mut parts = Blame { oncpu_ns: row.number(8), runq_ns: row.number(9), ..Blame::default() };
            for (place, ns) in parts.blocked_ns.iter_mut().enumerate() {
                *ns = row.number(10 + place);
            }
            let name = row.text(3);
            let total = parts.total_ns() as f64 / 100.0;
            let blame: Vec<(Cause, u64)> = shares_by_cause(ops.get(&name), &parts)
                .into_iter()
                .map(|(cause, share)| (cause, (share * total) as u64))
                .collect();
            let start_ns = row.number(0);
            thinner.add(
                Key::new(TrackKind::Process, row.id(2)),
                &Happened {
                    start_ns,
                    length_ns: row.number(1) - start_ns,
                    summed: true,
                    name: &name,
                    count: row.number(4),
                    busy_ns: row.number(5),
                    longest_ns: row.number(6),
                    errors: row.number(7),
                    blame: &blame,
                    stack_id: None,
                },
            );
        })
    }

    fn waits(&self, thinner: &mut Thinner) -> Result<(), QueryError> {
        let tables = [
            ("sched_events", "by_pid, by_comm", None),
            ("mem_events", "by_pid, by_comm", Some(Cause::MemFault)),
            ("io_events", "by_pid, by_comm", None),
            ("net_events", "NULL, NULL", Some(Cause::NetWait)),
        ];
        for (table, by, class) in tables {
            let sql = format!(
                "SELECT timestamp_ns, duration_ns, event, pid, tid, stack_id, {by} FROM {table} {} AND duration_ns > 0 LIMIT {MAX_EVENTS}",
                self.conditions("timestamp_ns")
            );
            self.each(&sql, |row| {
                let (event, length_ns) = (row.text(2), row.number(1));
                let name = match row.maybe(6).filter(|pid| *pid != 0) {
                    Some(pid) => format!("{event}: {}[{pid}]", row.text(7)),
                    None => event.clone(),
                };
                let blame = [(class.unwrap_or_else(|| class_of(&event)), length_ns)];
                let key = Key { tid: Some(row.id(4)), ..Key::new(TrackKind::Waits, row.id(3)) };
                thinner.add(key, &single(row, &name, &blame, row.signed(5)));
            })?;
        }
        Ok(())
    }

    fn streams(&self, thinner: &mut Thinner) -> Result<(), QueryError> {
        let step = thinner.step_ns();
        let sql = format!(
            "SELECT min(window_start_ns), max(window_start_ns + window_ns), pid, stream, stream_tid, sum(submitted), \
             sum(busy_lower_ns), sum(busy_upper_ns) FROM gpu_time {} \
             GROUP BY pid, stream, stream_tid, (window_start_ns - ?1) / {step}",
            self.conditions("window_start_ns")
        );
        self.each(&sql, |row| {
            let start_ns = row.number(0);
            thinner.add(
                Key {
                    tid: row.maybe(4).map(|tid| tid as u32),
                    stream: row.maybe_text(3),
                    ..Key::new(TrackKind::Stream, row.id(2))
                },
                &Happened {
                    start_ns,
                    length_ns: row.number(1) - start_ns,
                    name: "work",
                    count: row.number(5),
                    busy_ns: row.number(6),
                    longest_ns: row.number(7),
                    ..Happened::default()
                },
            );
        })
    }

    fn ranks(&self, thinner: &mut Thinner) -> Result<(), QueryError> {
        let sql = format!(
            "SELECT timestamp_ns, max(duration_ns, ifnull(completed_ns, 0) - timestamp_ns), op, pid, rank, stack_id FROM nccl_events {} \
             AND seq IS NOT NULL LIMIT {MAX_EVENTS}",
            self.conditions("timestamp_ns")
        );
        self.each(&sql, |row| {
            let key =
                Key { rank: row.signed(4).map(|rank| rank as i32), ..Key::new(TrackKind::Rank, row.id(3)) };
            let name = row.text(2);
            thinner.add(key, &single(row, &name, &[], row.signed(5)));
        })
    }

    fn annotations(&self, thinner: &mut Thinner) -> Result<(), QueryError> {
        let sql = format!(
            "SELECT timestamp_ns, duration_ns, event || ifnull('=' || value, '') FROM annotations {} LIMIT {MAX_EVENTS}",
            self.conditions("timestamp_ns")
        );
        self.each(&sql, |row| {
            let key = Key { kind: TrackKind::Annotation, pid: None, tid: None, rank: None, stream: None };
            let name = row.text(2);
            thinner.add(key, &single(row, &name, &[], None));
        })
    }
}

/// A row that begins with time and duration.
fn single<'a>(
    row: &Row<'_>,
    name: &'a str,
    blame: &'a [(Cause, u64)],
    stack_id: Option<i64>,
) -> Happened<'a> {
    let length_ns = row.number(1);
    Happened {
        start_ns: row.number(0),
        length_ns,
        name,
        count: 1,
        busy_ns: length_ns,
        longest_ns: length_ns,
        blame,
        stack_id,
        ..Happened::default()
    }
}

fn class_of(event: &str) -> Cause {
    match event {
        "preempted" => Cause::CpuPreempted,
        "throttled" => Cause::CpuThrottled,
        "futex" => Cause::LockFutex,
        "gil" => Cause::PythonGil,
        "sleep" => Cause::SelfSleep,
        "block_io" | "request" => Cause::IoBlock,
        "file" => Cause::IoFile,
        _ => Cause::Unknown,
    }
}
