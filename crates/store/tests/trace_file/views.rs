//! What is written is what is read, through the views and by other programs' SQLite.

use crate::made::{calls, full, library, one, plain, session, text, window, writer};
use gpuwhy_model::{
    Batch, BlameRow, Call, Cause, Facts, Loss, OpId, ProbeState, ProbeStatus, Process, ProcessEvent,
    ProcessEventKind, Reason, Stack,
};
use gpuwhy_store::{Filter, Limits, ProbeCost, Reader, Value};
use gpuwhy_testkit::skip;
use std::path::Path;
use std::process::Command;

#[test]
fn calls_come_back_as_they_were_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    // More than one wide statement, out of order, with a rest.
    let mut written: Vec<Call> = (0..100).map(|n| if n % 3 == 0 { full(n) } else { plain(n) }).collect();
    written.reverse();
    // Libraries whose numbers are those of the file.
    let libraries = (1..=3).map(|number| library(number, &format!("/lib/{number}"))).collect();
    writer
        .write(&Batch { calls: written.clone(), libraries, ..Batch::default() }, &Facts::default())
        .unwrap();
    writer.finish(5).unwrap();
    written.reverse();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.calls(&Filter::default()).unwrap(), written);
    let filter = Filter {
        op: Some("cuLaunchKernel".into()),
        pid: Some(10),
        from_ns: Some(written[50].start_ns),
        to_ns: Some(written[60].start_ns),
    };
    assert_eq!(
        reader.calls(&filter).unwrap(),
        [written[51].clone(), written[54].clone(), written[57].clone()]
    );
    assert_eq!(reader.event_count().unwrap(), 100);
    assert_eq!(reader.sessions().unwrap()[0].info, session());
    assert_eq!(reader.sessions().unwrap()[0].end_ns, Some(5));
}

#[test]
fn the_views_speak_of_calls_as_people_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let hip = Call { op: OpId(3), ..plain(9) };
    let process = Process { pid: 10, start_ns: plain(0).start_ns - 5, rank: Some(3), ..Process::default() };
    let batch = Batch { calls: vec![full(0), plain(1), hip], processes: vec![process], ..Batch::default() };
    writer.write(&batch, &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        one(
            &reader,
            "SELECT op, stream, handle, caller, ret, kept, sample_weight, blocked_ns, other_ns, grid_y, grid_z, \
             shared_bytes, stack_id, via, oncpu_ns + runq_ns + blocked_ns = duration_ns \
             FROM cuda_events WHERE op = 'cuLaunchKernel'"
        ),
        [
            text("cuLaunchKernel"),
            text("0xffffffffffffffff"),
            text("0x7f00deadbeef"),
            text("0x8000000000000000"),
            Value::Integer(-2),
            text("sample"),
            Value::Integer(100),
            Value::Integer(Reason::ALL.iter().map(|reason| 10 + *reason as i64).sum()),
            Value::Integer(18),
            Value::Integer(70_000),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(-77),
            Value::Null,
            Value::Integer(1),
        ]
    );
    assert_eq!(
        one(
            &reader,
            "SELECT stream, bytes, ret, runq_ns, blocked_ns, futex_ns, sleep_ns, grid_x, shared_bytes, sample_weight \
             FROM cuda_events WHERE op = 'cudaMalloc'"
        ),
        [
            Value::Null,
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(0),
            Value::Null,
            Value::Null,
            Value::Integer(0),
        ]
    );
    assert_eq!(one(&reader, "SELECT op FROM hip_events"), [text("hipLaunchKernel")]);
    assert_eq!(
        one(&reader, "SELECT layer, rank, node, kept FROM events WHERE op = 'hipLaunchKernel'"),
        [text("hip"), Value::Integer(3), text("node-7"), text("slow")]
    );
}

#[test]
fn threads_are_summed_and_late_parts_of_a_window_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let first = vec![window(0, 11, 1, &[1000, 2000]), window(0, 12, 1, &[500]), window(0, 11, 2, &[9])];
    let late = vec![window(0, 13, 1, &[70_000])];
    writer.write(&Batch { windows: first, ..Batch::default() }, &Facts::default()).unwrap();
    writer.commit().unwrap();
    writer.write(&Batch { windows: late, ..Batch::default() }, &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    let stats =
        reader.call_stats(&Filter { op: Some("cuLaunchKernel".into()), ..Filter::default() }).unwrap();
    assert_eq!(stats.len(), 1);
    let sum = &stats[0];
    assert_eq!((sum.count, sum.errors, sum.kept, sum.bytes), (4, 3, 6, 192));
    assert_eq!((sum.min_ns, sum.max_ns, sum.sum_ns, sum.window_ns), (500, 70_000, 73_500, 1_000_000_000));
    assert_eq!(sum.hist.total(), 4);
    assert_eq!(sum.blame.total_ns(), 73_500);
    let coverage = reader.coverage(None).unwrap();
    assert_eq!(coverage.sampled, 0, "more kept than counted is nothing sampled");
}

/// Two operations over several windows, and what the summary must say of them.
fn summary(path: &Path) -> Vec<(String, u64, [u64; 4], u64)> {
    let mut writer = writer(path);
    let mut seed = 7u64;
    for second in 0..20 {
        let durations: Vec<u64> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                300 + (seed >> 40) % 5_000 + if (seed >> 33).is_multiple_of(50) { 3_000_000 } else { 0 }
            })
            .collect();
        let windows = vec![window(second, 11, 1, &durations), window(second, 11, 4, &durations[..3])];
        writer.write(&Batch { windows, ..Batch::default() }, &Facts::default()).unwrap();
    }
    writer.finish(5).unwrap();
    let reader = Reader::open(path).unwrap();
    ["cuLaunchKernel", "cudaStreamSynchronize"]
        .into_iter()
        .map(|op| {
            let windows = reader.call_stats(&Filter { op: Some(op.into()), ..Filter::default() }).unwrap();
            let sum = windows.into_iter().reduce(|mut sum, next| {
                sum.merge(&next);
                sum
            });
            let sum = sum.unwrap();
            (op.into(), sum.count, [0.5, 0.95, 0.99, 0.999].map(|q| sum.quantile_ns(q)), sum.max_ns)
        })
        .collect()
}

const SUMMARY_SQL: &str = "SELECT op || ' ' || count || ' ' || CAST(round(p50_us * 1000) AS INTEGER) || ' ' || \
    CAST(round(p95_us * 1000) AS INTEGER) || ' ' || CAST(round(p99_us * 1000) AS INTEGER) || ' ' || \
    CAST(round(p999_us * 1000) AS INTEGER) || ' ' || CAST(round(max_us * 1000) AS INTEGER) AS line \
    FROM op_summary ORDER BY op";

#[test]
fn the_summary_agrees_with_the_model_and_in_any_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let expected: Vec<String> = summary(&path)
        .into_iter()
        .map(|(op, count, [p50, p95, p99, p999], max)| format!("{op} {count} {p50} {p95} {p99} {p999} {max}"))
        .collect();
    let reader = Reader::open(&path).unwrap();
    let lines: Vec<String> = reader
        .sql(SUMMARY_SQL, &Limits::default())
        .unwrap()
        .rows
        .into_iter()
        .map(|row| match &row[0] {
            Value::Text(line) => line.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lines, expected);
    let python = format!(
        "import sqlite3,sys\nfor row in sqlite3.connect(sys.argv[1]).execute({SUMMARY_SQL:?}): print(row[0])"
    );
    let path = path.to_str().unwrap();
    for (program, arguments) in
        [("sqlite3", vec!["-readonly", path, SUMMARY_SQL]), ("python3", vec!["-c", &python, path])]
    {
        match Command::new(program).args(arguments).output() {
            Ok(output) => {
                assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>(),
                    expected,
                    "{program}"
                );
            }
            Err(_) => skip(
                "the_summary_agrees_with_the_model_and_in_any_sqlite",
                &format!("{program} is not installed"),
            ),
        }
    }
}

#[test]
fn shares_of_the_summary_are_of_the_time_in_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    writer
        .write(&Batch { windows: vec![window(0, 11, 1, &[100, 300])], ..Batch::default() }, &Facts::default())
        .unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(
        one(
            &reader,
            "SELECT count, errors, mean_us, max_us, oncpu_pct, runq_pct, blocked_pct FROM op_summary"
        ),
        [
            Value::Integer(2),
            Value::Integer(1),
            Value::Real(0.2),
            Value::Real(0.3),
            Value::Real(50.0),
            Value::Real(50.0),
            Value::Real(0.0),
        ]
    );
}

#[test]
fn a_process_is_completed_by_later_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let whole = Process {
        pid: 10,
        parent_pid: 1,
        start_ns: 100,
        comm: "python".into(),
        cmdline: "python train.py".into(),
        exe: "/usr/bin/python".into(),
        uid: 1000,
        cgroup_id: 5,
        cgroup: "/job".into(),
        rank: Some(2),
        ..Process::default()
    };
    let end = Process { pid: 10, start_ns: 100, end_ns: Some(900), exit_code: Some(0), ..Process::default() };
    writer
        .write(&Batch { processes: vec![whole.clone(), end], ..Batch::default() }, &Facts::default())
        .unwrap();
    writer.finish(5).unwrap();
    let expected = Process { end_ns: Some(900), exit_code: Some(0), ..whole };
    assert_eq!(Reader::open(&path).unwrap().processes().unwrap(), [expected]);
}

#[test]
fn threads_follow_what_happened_to_them() {
    use ProcessEventKind::{Exec, Exit, Fork, Seen, Thread, ThreadExit};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let event = |time_ns, kind, pid, tid, child| ProcessEvent {
        time_ns,
        kind,
        pid,
        tid,
        child,
        exit_code: 3,
        cgroup_id: 0,
        comm: "worker".into(),
        waits_only: false,
    };
    let process_events = vec![
        event(1, Seen, 10, 10, 0),
        event(2, Thread, 10, 10, 11),
        event(3, Thread, 10, 10, 12),
        event(4, ThreadExit, 10, 11, 0),
        event(5, Fork, 10, 10, 20),
        event(6, Thread, 20, 20, 21),
        event(7, Exec, 20, 21, 0),
        event(8, ThreadExit, 30, 31, 0),
        event(9, Exit, 10, 10, 0),
    ];
    let processes = vec![Process { pid: 10, ..Process::default() }];
    writer.write(&Batch { processes, ..Batch::default() }, &Facts::default()).unwrap();
    writer.write(&Batch { process_events, ..Batch::default() }, &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    let sql = "SELECT group_concat(pid || '/' || tid || ' ' || ifnull(start_ns, '-') || '..' || ifnull(end_ns, '-'), ', ') \
               FROM (SELECT * FROM threads ORDER BY pid, tid)";
    let threads = "10/10 -..9, 10/11 2..4, 10/12 3..9, 20/20 5..-, 20/21 6..7, 30/31 -..8";
    assert_eq!(one(&reader, sql), [text(threads)]);
    assert_eq!(reader.processes().unwrap()[0].end_ns, Some(9));
    assert_eq!(reader.processes().unwrap()[0].exit_code, Some(3));
    assert_eq!(one(&reader, "SELECT count(*) FROM events WHERE layer = 'process'"), [Value::Integer(9)]);
}

#[test]
fn blame_loss_probes_and_stacks_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let row = BlameRow {
        window_start_ns: 7,
        pid: 10,
        tid: 11,
        op: OpId(2),
        cause: Cause::CpuPreempted,
        by_pid: 99,
        by_tid: 98,
        by_comm: "stress".into(),
        by_cgroup_id: 0,
        ns: 1234,
        count: 5,
    };
    let unprivileged = BlameRow {
        op: OpId::NONE,
        cause: Cause::Unknown,
        by_pid: 0,
        by_tid: 0,
        by_comm: String::new(),
        ..row.clone()
    };
    let batch = Batch {
        losses: vec![Loss {
            start_ns: 1,
            end_ns: 2,
            probe: "cuda".into(),
            cpu: -1,
            reason: "ring full".into(),
            count: 41,
        }],
        stacks: vec![Stack {
            stack_id: -7,
            pid: 10,
            addresses: vec![0xffff_ffff_ffff_fff0, 0x401000],
            ..Stack::default()
        }],
        ..calls(0..1)
    };
    writer
        .write(&batch, &Facts { blame: vec![row.clone(), unprivileged.clone()], ..Facts::default() })
        .unwrap();
    let probe = |target: &str, state, reason: &str| ProbeStatus {
        probe: "cuda".into(),
        target: target.into(),
        file: "/lib/libcuda.so".into(),
        state,
        flavour: "multi".into(),
        since_ns: 5,
        reason: reason.into(),
    };
    writer
        .write_probes(&[
            probe("cuLaunchKernel", ProbeState::Attached, ""),
            probe("cuMemAlloc", ProbeState::Degraded, "1 in 16"),
            probe("cuOdd", ProbeState::Refused, "begins with mov"),
        ])
        .unwrap();
    let cost = ProbeCost {
        probe: "cuda".into(),
        target: "cuLaunchKernel".into(),
        file: "/lib/libcuda.so".into(),
        hits: 7,
        cost_ns: 900,
    };
    writer.write_probe_costs(&[cost]).unwrap();
    writer.write_probes(&[probe("cuLaunchKernel", ProbeState::Attached, "")]).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    // In the order of windows, threads and operations, nobody's first.
    assert_eq!(reader.blame(&Filter::default()).unwrap(), [unprivileged, row]);
    assert_eq!(reader.losses().unwrap(), batch.losses);
    assert_eq!(
        one(&reader, "SELECT json_extract(addresses, '$[0]') FROM stacks WHERE stack_id = -7"),
        [text("0xfffffffffffffff0")]
    );
    assert_eq!(
        one(&reader, "SELECT hits, cost_ns FROM probes WHERE target = 'cuLaunchKernel'"),
        [Value::Integer(7), Value::Integer(900)]
    );
    let coverage = reader.coverage(None).unwrap();
    assert_eq!(coverage.lost, 41);
    assert_eq!(coverage.degraded, ["cuda cuMemAlloc in /lib/libcuda.so: 1 in 16"]);
    assert_eq!(coverage.unattached, ["cuda cuOdd in /lib/libcuda.so: begins with mov"]);
}

#[test]
fn an_operation_nobody_named_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    let call = Call { op: OpId(900), ..plain(0) };
    writer.write(&Batch { calls: vec![call], ..Batch::default() }, &Facts::default()).unwrap();
    writer.finish(5).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(one(&reader, "SELECT op FROM cuda_events"), [text("op_900")]);
}
