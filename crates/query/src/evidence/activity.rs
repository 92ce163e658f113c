//! What threads did one wait and one sample at a time, for the critical path.

use super::beats;
use super::row::{each_row, rows, table_for};
use crate::QueryError;
use gpuwhy_cause::Evidence;
use gpuwhy_cause::activity::{
    Activity, BusySample, Caller, Command, Syscall, ThreadName, ThreadSample, ThreadWait,
};
use gpuwhy_model::{Family, Layer, OpId, Part, WokenBy};
use gpuwhy_store::Reader;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Of more waits than this the latest are looked at: a day of a busy host would not fit.
const MAX_WAITS: usize = 250_000;
const MAX_SAMPLES: usize = 150_000;
/// A wait that is seen by looks only, as it has not ended, counts from this length on.
const MIN_OPEN_NS: u64 = 5_000_000;

pub(super) fn activity(reader: &Reader, times: [u64; 2], evidence: &mut Evidence) -> Result<(), QueryError> {
    let ids: HashMap<String, OpId> = evidence.ops.values().map(|op| (op.name.clone(), op.id)).collect();
    let mut activity = Activity::default();
    let processes = evidence.processes.iter().map(|process| (process.pid, process.comm.as_str())).collect();
    let names = Names { processes };
    threads(reader, times, &names, &mut activity)?;
    callers(reader, times, evidence, &mut activity)?;
    waits(reader, times, &ids, &names, &mut activity)?;
    samples(reader, times, &ids, &mut activity)?;
    beats::beats(reader, times, evidence, &mut activity)?;
    commands(reader, times, evidence, &mut activity)?;
    busy(reader, times, &mut activity)?;
    let sql = "SELECT pid, timestamp_ns + ifnull(duration_ns, 0) FROM coldstart_events \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND duration_ns > 500000 ORDER BY 2 LIMIT 100000";
    activity.cold = rows(reader, sql, times)?.iter().map(|row| (row.id(0), row.number(1))).collect();
    let sql = "SELECT pid, min(timestamp_ns) FROM coldstart_events WHERE event IN ('context', 'module_load') \
               AND timestamp_ns >= ?1 AND timestamp_ns < ?2 GROUP BY pid";
    activity.first_load = rows(reader, sql, times)?.iter().map(|row| (row.id(0), row.number(1))).collect();
    settle_ends(reader, times, &mut activity)?;
    evidence.activity = activity;
    Ok(())
}

/// Names of threads. A thread is named after it begins, and a child after it runs its command, so the latest name counts; but
/// who holds a lock is recorded by the name of its process, which says less.
struct Names<'a> {
    processes: HashMap<u32, &'a str>,
}

impl Names<'_> {
    fn add(&self, activity: &mut Activity, tid: u32, name: ThreadName) {
        let is_of_process = tid != name.pid && self.processes.get(&name.pid) == Some(&name.comm.as_str());
        let known = activity.threads.get(&tid).is_some_and(|known| !known.comm.is_empty());
        if !(known && (is_of_process || name.comm.is_empty())) {
            activity.threads.insert(tid, name);
        }
    }
}

fn threads(
    reader: &Reader,
    times: [u64; 2],
    names: &Names<'_>,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let of_blame = "SELECT by_pid, by_tid, by_comm, max(window_start_ns) FROM blame WHERE by_tid > 0 \
                    AND cause <> 'cpu.interrupt' GROUP BY 1, 2, 3 ORDER BY 4";
    for sql in ["SELECT pid, tid, comm FROM threads", of_blame] {
        for row in rows(reader, sql, times)? {
            names.add(activity, row.id(1), ThreadName { pid: row.id(0), comm: row.text(2) });
        }
    }
    Ok(())
}

/// Threads that make calls of GPU libraries. Everybody who asks the driver something is in its tables; that is no call.
fn callers(
    reader: &Reader,
    times: [u64; 2],
    evidence: &Evidence,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let sql = format!(
        "SELECT pid, tid, op, sum(CASE WHEN by_pid IS NULL OR by_pid = 0 THEN count ELSE 0 END), min(window_start_ns), \
         max(window_start_ns) FROM {} WHERE op IS NOT NULL AND window_start_ns >= ?1 AND window_start_ns < ?2 \
         AND cause IN ('cpu.self', 'gpu.wait', 'gpu.alloc') GROUP BY 1, 2, 3",
        table_for(reader, times, "blame")?
    );
    const WINDOW_NS: u64 = 500_000_000;
    let does_work = |op: &str| {
        evidence
            .ops
            .get(op)
            .is_some_and(|op| op.layer != Layer::Driver && !matches!(op.family, Family::Load | Family::Other))
    };
    for row in rows(reader, &sql, times)? {
        if !does_work(&row.text(2)) {
            continue;
        }
        let (first_ns, last_ns) = (row.number(4), row.number(5) + WINDOW_NS);
        let caller = activity.callers.entry(row.id(1)).or_insert(Caller {
            pid: row.id(0),
            calls: 0,
            first_ns,
            last_ns,
        });
        caller.calls += row.number(3);
        caller.first_ns = caller.first_ns.min(first_ns);
        caller.last_ns = caller.last_ns.max(last_ns);
        activity.threads.entry(row.id(1)).or_insert(ThreadName { pid: row.id(0), comm: String::new() });
    }
    Ok(())
}

fn waits(
    reader: &Reader,
    times: [u64; 2],
    ids: &HashMap<String, OpId>,
    names: &Names<'_>,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let mut objects: HashMap<String, u32> = HashMap::new();
    let mut latest: BTreeMap<u32, (u64, ThreadName)> = BTreeMap::new();
    // Table, what was waited for, who ended it.
    let tables = [
        ("sched_events", "NULL", "by_pid, by_tid, by_comm, woken_by, syscall"),
        ("io_events", "ifnull(file, device)", "by_pid, by_tid, by_comm, woken_by, syscall"),
        ("net_events", "daddr || ':' || dport", "by_pid, by_tid, by_comm, woken_by, syscall"),
        ("mem_events", "NULL", "NULL, NULL, NULL, NULL, NULL"),
    ];
    for (table, object, by) in tables {
        let sql = format!(
            "SELECT timestamp_ns, duration_ns, event, pid, tid, op, {by}, {object} FROM {table} \
             WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 AND duration_ns > 0 ORDER BY timestamp_ns DESC LIMIT {MAX_WAITS}"
        );
        let (mut count, mut earliest_ns) = (0, u64::MAX);
        each_row(reader, &sql, times, |row| {
            count += 1;
            earliest_ns = earliest_ns.min(row.number(0));
            let Some(part) = part_of(&row.text(2)) else { return };
            let start_ns = row.number(0);
            let object = row.maybe_text(11).filter(|object| !object.is_empty()).map(|object| {
                let next = objects.len() as u32;
                *objects.entry(object).or_insert(next)
            });
            let (by_pid, by_tid) = (row.id(6), row.id(7));
            let end_ns = start_ns + row.number(1);
            if by_tid != 0 && latest.get(&by_tid).is_none_or(|(time, _)| *time < end_ns) {
                latest.insert(by_tid, (end_ns, ThreadName { pid: by_pid, comm: row.text(8) }));
            }
            activity.waits.push(ThreadWait {
                start_ns,
                end_ns,
                pid: row.id(3),
                tid: row.id(4),
                part,
                op: row.maybe_text(5).and_then(|op| ids.get(&op).copied()).unwrap_or(OpId::NONE),
                by_pid,
                by_tid,
                woken_by: WokenBy::ALL.into_iter().find(|by| by.name() == row.text(9)),
                syscall: row.maybe(10).map_or(Syscall::Other, syscall),
                object,
            });
        })?;
        if count == MAX_WAITS {
            activity.whole_from_ns = activity.whole_from_ns.max(earliest_ns);
        }
    }
    let mut named: Vec<(String, u32)> = objects.into_iter().collect();
    named.sort_by_key(|(_, place)| *place);
    activity.objects = named.into_iter().map(|(name, _)| name).collect();
    for (tid, (_, name)) in latest {
        names.add(activity, tid, name);
    }
    Ok(())
}

/// Events are named as reasons are, with one exception.
fn part_of(event: &str) -> Option<Part> {
    match event {
        "preempted" => Some(Part::Runnable),
        "request" | "oom_kill" => None,
        name => Part::of_name(name),
    }
}

fn syscall(number: u64) -> Syscall {
    const READS: [i64; 6] = [
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_preadv2,
        libc::SYS_sendfile,
    ];
    const WRITES: [i64; 10] = [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_sync_file_range,
        libc::SYS_copy_file_range,
        libc::SYS_splice,
    ];
    let number = number as i64;
    match number {
        _ if READS.contains(&number) => Syscall::Read,
        _ if WRITES.contains(&number) => Syscall::Write,
        libc::SYS_wait4 | libc::SYS_waitid => Syscall::WaitChild,
        libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mremap | libc::SYS_madvise | libc::SYS_brk => {
            Syscall::Memory
        }
        _ => Syscall::Other,
    }
}

fn samples(
    reader: &Reader,
    times: [u64; 2],
    ids: &HashMap<String, OpId>,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let sql = format!(
        "SELECT timestamp_ns, pid, tid, op, stack_id, weight_ns, kernel, syscall, gc FROM cpu_samples \
         WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY timestamp_ns DESC LIMIT {MAX_SAMPLES}"
    );
    each_row(reader, &sql, times, |row| {
        activity.samples.push(ThreadSample {
            time_ns: row.number(0),
            pid: row.id(1),
            tid: row.id(2),
            part: Part::OnCpu,
            op: row.maybe_text(3).and_then(|op| ids.get(&op).copied()).unwrap_or(OpId::NONE),
            stack_id: row.signed(4),
            weight_ns: row.number(5),
            in_gc: row.number(8) > 0,
            syscall: row.maybe(7).filter(|_| row.number(6) > 0).map_or(Syscall::Other, syscall),
            in_fault: row.number(6) > 0 && row.maybe(7).is_none(),
        });
    })?;
    let sampled: BTreeSet<u32> = activity.samples.iter().map(|sample| sample.tid).collect();
    // By thread and beginning: how far a wait was seen to last.
    let mut open: BTreeMap<(u32, u64), (u32, Part, u64)> = BTreeMap::new();
    let sql = format!(
        "SELECT timestamp_ns, pid, tid, reason, stack_id, ifnull(weight_ns, 250000000), since_ns FROM wait_samples \
         WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 ORDER BY timestamp_ns DESC LIMIT {MAX_SAMPLES}"
    );
    each_row(reader, &sql, times, |row| {
        let Some(part) = Part::of_name(&row.text(3)) else { return };
        let (time_ns, pid, tid, since_ns) = (row.number(0), row.id(1), row.id(2), row.number(6));
        // Running code that is sampled by the clock needs no looks.
        if part == Part::OnCpu && sampled.contains(&tid) {
            return;
        }
        if part != Part::OnCpu {
            let last = open.entry((tid, since_ns)).or_insert((pid, part, 0));
            last.2 = last.2.max(time_ns);
        }
        activity.samples.push(ThreadSample {
            time_ns,
            pid,
            tid,
            part,
            op: OpId::NONE,
            stack_id: row.signed(4),
            weight_ns: row.number(5),
            in_gc: false,
            syscall: Syscall::Other,
            in_fault: false,
        });
    })?;
    add_open_waits(open, activity);
    Ok(())
}

/// Waits that were met but never recorded: they last until the end of the trace.
fn add_open_waits(open: BTreeMap<(u32, u64), (u32, Part, u64)>, activity: &mut Activity) {
    // A record's start is the kernel's own clock, as a look's is.
    let recorded: BTreeSet<(u32, u64)> =
        activity.waits.iter().map(|wait| (wait.tid, wait.start_ns / 1_000)).collect();
    for ((tid, since_ns), (pid, part, seen_ns)) in open {
        let near = (since_ns / 1_000 - 2)..=(since_ns / 1_000 + 2);
        if seen_ns < since_ns + MIN_OPEN_NS || near.into_iter().any(|us| recorded.contains(&(tid, us))) {
            continue;
        }
        activity.waits.push(ThreadWait {
            start_ns: since_ns,
            end_ns: seen_ns,
            pid,
            tid,
            part,
            op: OpId::NONE,
            by_pid: 0,
            by_tid: 0,
            woken_by: None,
            syscall: Syscall::Other,
            object: None,
        });
    }
}

/// Children that ran a program of their own and ended, or were started by a followed process.
fn commands(
    reader: &Reader,
    times: [u64; 2],
    evidence: &Evidence,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    let sql = "SELECT DISTINCT pid FROM process_events WHERE event = 'process_exec' AND timestamp_ns >= ?1 AND timestamp_ns < ?2";
    let ran: BTreeSet<u32> = rows(reader, sql, times)?.iter().map(|row| row.id(0)).collect();
    for process in &evidence.processes {
        // A worker that Python starts anew is no command of its own.
        let is_worker = process.cmdline.contains("multiprocessing");
        let Some(end_ns) = process.end_ns else { continue };
        let parent = evidence.processes.iter().rfind(|parent| parent.pid == process.parent_pid);
        let life = [process.start_ns.max(times[0]), end_ns];
        let parents_life = parent
            .map(|parent| [parent.start_ns.max(times[0]), parent.end_ns.unwrap_or(times[1]).min(times[1])]);
        let is_server = parents_life.is_some_and(|parents_life| is_server(life, parents_life));
        if !ran.contains(&process.pid) || process.parent_pid == 0 || is_worker || is_server {
            continue;
        }
        let command = if process.cmdline.is_empty() { process.comm.clone() } else { process.cmdline.clone() };
        activity.commands.insert(process.pid, Command { parent_pid: process.parent_pid, command });
    }
    brief_commands(reader, times, evidence, activity)
}

/// Commands that were over before anything else was known of them: forked, run and ended, by name.
fn brief_commands(
    reader: &Reader,
    times: [u64; 2],
    evidence: &Evidence,
    activity: &mut Activity,
) -> Result<(), QueryError> {
    const BRIEF_NS: u64 = 1_000_000_000;
    let sql = "SELECT event, pid, child, timestamp_ns, comm FROM process_events WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 \
               AND event IN ('process_fork', 'process_exec', 'process_exit') ORDER BY timestamp_ns LIMIT 300000";
    let known: BTreeSet<u32> = evidence.processes.iter().map(|process| process.pid).collect();
    let mut forked: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut ran: BTreeMap<u32, String> = BTreeMap::new();
    for row in rows(reader, sql, times)? {
        let pid = row.id(1);
        match row.text(0).as_str() {
            "process_fork" => _ = forked.insert(row.id(2), (pid, row.number(3))),
            "process_exec" => _ = ran.insert(pid, row.text(4)),
            _ => {
                let brief = forked.remove(&pid).filter(|(_, time)| row.number(3) < time + BRIEF_NS);
                let command = ran.remove(&pid).filter(|_| !known.contains(&pid));
                if let (Some((parent_pid, _)), Some(command)) = (brief, command) {
                    activity.commands.insert(pid, Command { parent_pid, command });
                }
            }
        }
    }
    Ok(())
}

/// Whether a child serves its parent, and is no command that is waited for: it lives as long, or is ended with it.
fn is_server(life: [u64; 2], parents_life: [u64; 2]) -> bool {
    const MIN_NS: u64 = 1_000_000_000;
    const TOGETHER_NS: u64 = 500_000_000;
    let ns = |[start, end]: [u64; 2]| end.saturating_sub(start);
    ns(life) >= MIN_NS && (ns(life) * 2 >= ns(parents_life) || life[1] + TOGETHER_NS >= parents_life[1])
}

/// The busy counter of the GPU each process is on: of all of them where that is not known.
fn busy(reader: &Reader, times: [u64; 2], activity: &mut Activity) -> Result<(), QueryError> {
    for row in rows(reader, "SELECT DISTINCT pid, gpu FROM gpu_processes", times)? {
        activity.gpus.entry(row.id(0)).or_default().insert(row.number(1));
    }
    let pids: BTreeSet<u32> = activity.callers.values().map(|caller| caller.pid).collect();
    // GPM measures the time between two samples; the driver's own figure is of a part of it.
    let sql = "SELECT timestamp_ns, gpu, ifnull(graphics_pct, sm_pct), graphics_pct IS NOT NULL FROM gpu_samples \
               WHERE timestamp_ns >= ?1 AND timestamp_ns < ?2 + 1000000000 AND mig IS NULL \
               AND ifnull(graphics_pct, sm_pct) IS NOT NULL ORDER BY timestamp_ns LIMIT 1000000";
    for row in rows(reader, sql, times)? {
        for pid in &pids {
            if activity.gpus.get(pid).is_none_or(|gpus| gpus.contains(&row.number(1))) {
                let pct = row.real(2).unwrap_or(0.0);
                let is_of_engine = row.number(3) != 0;
                activity.busy.push(BusySample { pid: *pid, time_ns: row.number(0), pct, is_of_engine });
            }
        }
    }
    Ok(())
}

/// Where the governor has detached probes, calls end in the file before they do in the program; where an interpreter ends,
/// threads wait and run after the program's last line. The last sample of a line of Python tells, where there is any.
fn settle_ends(reader: &Reader, times: [u64; 2], activity: &mut Activity) -> Result<(), QueryError> {
    let sql = "SELECT count(*) FROM watch_changes WHERE state <> 'attached' AND timestamp_ns >= ?1 AND timestamp_ns < ?2";
    let is_detached = rows(reader, sql, times)?.first().is_some_and(|row| row.number(0) > 0);
    let sql = "SELECT DISTINCT stack_id FROM frames WHERE kind = 'python'";
    let python: BTreeSet<i64> = rows(reader, sql, times)?.iter().filter_map(|row| row.signed(0)).collect();
    let mut last_line: BTreeMap<u32, u64> = BTreeMap::new();
    let mut last_seen: BTreeMap<u32, u64> = BTreeMap::new();
    for sample in &activity.samples {
        let last = |seen: &mut BTreeMap<u32, u64>| {
            let time = seen.entry(sample.tid).or_default();
            *time = (*time).max(sample.time_ns);
        };
        last(&mut last_seen);
        if sample.stack_id.is_some_and(|id| python.contains(&id)) {
            last(&mut last_line);
        }
    }
    // A sample comes every 10 ms of running.
    const SLACK_NS: u64 = 20_000_000;
    for (tid, caller) in &mut activity.callers {
        // The thread of a backward pass has no Python: its process has.
        let line = last_line.get(tid).or_else(|| last_line.get(&caller.pid));
        let line = line.filter(|_| activity.samples.len() > 20).map(|time| time + SLACK_NS);
        let seen = last_seen.get(tid).copied();
        if is_detached {
            caller.last_ns = caller.last_ns.max(line.or(seen).unwrap_or(0));
        }
        if let Some(line) = line {
            caller.last_ns = caller.last_ns.min(line.max(caller.first_ns));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_lives_as_long_or_ends_with_its_parent_is_a_server_and_a_command_is_not() {
        let ms = |span: [u64; 2]| span.map(|ms| ms * 1_000_000);
        let parent = ms([0, 14_000]);
        assert!(is_server(ms([10_000, 13_900]), parent));
        assert!(is_server(ms([1_000, 9_000]), parent));
        assert!(!is_server(ms([6_000, 8_000]), parent));
        assert!(!is_server(ms([13_800, 13_990]), parent));
    }
}
