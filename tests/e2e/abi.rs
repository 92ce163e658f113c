//! What a trace says of a call is what was passed: every probed function is called by a workload that knows its
//! arguments, and they come out one by one.

use crate::support::{Trace, can_trace, done, simwork, truth};
use gpuwhy_model::Role;
use gpuwhy_probes::{Function, op_of_symbol};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const FLAVOURS: [&str; 2] = ["session", "multi"];

/// The workloads that together call every probed function.
const GOLDEN: [&[&str]; 4] =
    [&["mixed"], &["hip-mixed"], &["nccl-mixed", "--linger-ms", "0"], &["ibverbs", "--events", "3"]];

/// The functions of libraries; ioctls on device files have no symbol.
fn functions() -> impl Iterator<Item = &'static Function> {
    let probes = gpuwhy_probes::PROBES.iter().filter(|probe| probe.name != "driver");
    probes.flat_map(|probe| probe.attach.functions())
}

fn function(symbol: &str) -> Option<&'static Function> {
    functions().find(|function| function.symbol == symbol)
}

fn list<'a>(truth: &'a Value, name: &str) -> &'a [Value] {
    truth[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(call: &'a Value, name: &str) -> &'a str {
    call[name].as_str().unwrap()
}

/// Handles have all their bits, so they are stored as the signed number of the same bits.
fn number(call: &Value, name: &str) -> i64 {
    u64::from_str_radix(&text(call, name)[2..], 16).unwrap() as i64
}

#[test]
fn every_probed_function_has_a_golden_call() {
    let mut called = BTreeSet::new();
    for words in GOLDEN {
        let truth = truth(&done(Command::new(simwork()).args(words).output().unwrap()));
        let calls = list(&truth, "calls").iter().chain(list(&truth, "collectives"));
        called.extend(calls.map(|call| text(call, "op").to_string()));
    }
    let missing: Vec<&str> =
        functions().map(|function| function.symbol).filter(|symbol| !called.contains(*symbol)).collect();
    assert!(missing.is_empty(), "no golden workload calls {missing:?}");
}

/// A call as the workload and the trace tell it.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    op: String,
    bytes: i64,
    stream: String,
    handle: String,
    aux: i64,
    direction: String,
    ret: i64,
}

/// The calls of probed functions, but for those of which only the entry is seen.
fn passed(truth: &Value) -> Vec<&Value> {
    let is_counted = |call: &&Value| {
        function(text(call, "op"))
            .is_some_and(|function| !matches!(function.role, Role::SetDevice | Role::Register))
    };
    list(truth, "calls").iter().filter(is_counted).collect()
}

impl Call {
    fn of_truth(call: &Value) -> Call {
        Call {
            op: op_of_symbol(text(call, "op")).into(),
            bytes: number(call, "bytes"),
            stream: text(call, "stream").into(),
            handle: text(call, "ptr").into(),
            aux: number(call, "aux"),
            direction: text(call, "direction").into(),
            ret: number(call, "ret"),
        }
    }

    /// In the order of their beginning.
    fn all_of(trace: &Trace, view: &str) -> Vec<Call> {
        let db = trace.db();
        let mut statement = db
            .prepare(&format!(
                "SELECT e.op, e.bytes, coalesce(e.stream, '0x0'), coalesce(e.handle, '0x0'), coalesce(c.aux, 0), \
                 coalesce(e.direction, ''), e.ret FROM {view} e JOIN calls c ON c.timestamp_ns = e.timestamp_ns AND \
                 c.tid = e.tid ORDER BY e.timestamp_ns"
            ))
            .unwrap();
        let call = |row: &rusqlite::Row<'_>| {
            Ok(Call {
                op: row.get(0)?,
                bytes: row.get(1)?,
                stream: row.get(2)?,
                handle: row.get(3)?,
                aux: row.get(4)?,
                direction: row.get(5)?,
                ret: row.get(6)?,
            })
        };
        statement.query_map([], call).unwrap().map(Result::unwrap).collect()
    }
}

/// Compares call by call what a workload did with what a view of the trace says.
fn assert_calls(trace: &Trace, truth: &Value, view: &str) {
    let passed = passed(truth);
    let seen = Call::all_of(trace, view);
    for (call, seen) in passed.iter().zip(&seen) {
        assert_eq!(Call::of_truth(call), *seen, "{call}");
    }
    assert_eq!(passed.len(), seen.len(), "all of them and no others");
    let mut counts = BTreeMap::new();
    for call in seen {
        *counts.entry(call.op).or_insert(0) += 1;
    }
    for (op, count) in counts {
        assert_eq!(trace.count_of(&op), count, "{op}: as many are counted");
    }
    assert_eq!(
        trace.number(&format!("SELECT count(*) FROM {view} WHERE kept = 'error'")),
        trace.number("SELECT sum(errors) FROM call_stats"),
        "every failed call is kept"
    );
}

/// Names that were passed: of functions, and of files.
fn assert_names(trace: &Trace, truth: &Value) {
    let named = passed(truth).into_iter().filter(|call| !text(call, "name").is_empty());
    for call in named {
        let (op, handle, name) = (op_of_symbol(text(call, "op")), text(call, "ptr"), text(call, "name"));
        let known = match function(text(call, "op")).unwrap().role {
            Role::FunctionName => format!("FROM kernels WHERE handle = '{handle}' AND mangled = '{name}'"),
            role => {
                assert_eq!(role, Role::ModuleLoad, "{call}");
                format!("FROM coldstart_events WHERE op = '{op}' AND name = '{name}'")
            }
        };
        assert_eq!(trace.number(&format!("SELECT count(*) {known}")), 1, "{call}");
    }
}

/// All launches that went well have one shape.
fn assert_shapes(trace: &Trace, truth: &Value, view: &str) {
    let numbers = |name: &str| list(truth, name).iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    let shape = format!("{} / {} / {}", numbers("grid"), numbers("block"), truth["shared_bytes"]);
    let db = trace.db();
    let mut statement = db
        .prepare(&format!(
            "SELECT DISTINCT format('%d %d %d / %d %d %d / %d', grid_x, grid_y, grid_z, block_x, block_y, block_z, \
             shared_bytes) FROM {view} JOIN ops USING (op) WHERE family = 'launch' AND ret = 0"
        ))
        .unwrap();
    let seen: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, [shape]);
}

#[test]
fn arguments_come_out_as_they_were_passed() {
    if !can_trace("arguments_come_out_as_they_were_passed") {
        return;
    }
    for (workload, view) in [("mixed", "cuda_events"), ("hip-mixed", "hip_events")] {
        for attach in FLAVOURS {
            let trace = Trace::new();
            let truth = trace.of_simwork(&["--keep-all", "--attach", attach], &[workload]);
            assert_calls(&trace, &truth, view);
            assert_names(&trace, &truth);
            assert_shapes(&trace, &truth, view);
        }
    }
}

/// NCCL's, in the order of its numbers.
const DATATYPES: [&str; 12] = [
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8e4m3",
    "float8e5m2",
];
const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

/// A call of the collective library.
#[derive(Debug, PartialEq, Eq)]
struct Collective {
    function: String,
    comm: Option<String>,
    hash: Option<String>,
    /// Rank, ranks, number of the collective, root or other side.
    numbers: [Option<i64>; 4],
    count: Option<i64>,
    datatype: Option<String>,
    reduction: Option<String>,
    stream: Option<String>,
    ret: i64,
}

impl Collective {
    fn of_truth(call: &Value) -> Collective {
        let handle =
            |name: &str| Some(text(call, name).to_string()).filter(|text| !text.is_empty() && text != "0x0");
        let known = |name: &str| call[name].as_i64().filter(|number| *number >= 0);
        let name = |name: &str, names: &[&str]| known(name).map(|number| names[number as usize].to_string());
        Collective {
            function: text(call, "op").into(),
            comm: handle("comm"),
            hash: handle("hash"),
            numbers: ["rank", "nranks", "seq", "root"].map(known),
            count: known("type").and_then(|_| call["count"].as_i64()),
            datatype: name("type", &DATATYPES),
            reduction: name("redop", &REDUCTIONS),
            stream: handle("stream"),
            ret: call["ret"].as_i64().unwrap(),
        }
    }

    /// Of the process's first thread, in the order of their beginning.
    fn all_of(trace: &Trace, pid: i64) -> Vec<Collective> {
        let db = trace.db();
        let mut statement = db
            .prepare(
                "SELECT function, comm, comm_id_hash, rank, nranks, seq, peer, count, datatype, reduce_op, stream, ret \
                 FROM nccl_events WHERE tid = ? ORDER BY timestamp_ns",
            )
            .unwrap();
        let call = |row: &rusqlite::Row<'_>| {
            Ok(Collective {
                function: row.get(0)?,
                comm: row.get(1)?,
                hash: row.get(2)?,
                numbers: [row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?],
                count: row.get(7)?,
                datatype: row.get(8)?,
                reduction: row.get(9)?,
                stream: row.get(10)?,
                ret: row.get(11)?,
            })
        };
        statement.query_map([pid], call).unwrap().map(Result::unwrap).collect()
    }
}

#[test]
fn arguments_of_collectives_come_out_as_they_were_passed() {
    if !can_trace("arguments_of_collectives_come_out_as_they_were_passed") {
        return;
    }
    for attach in FLAVOURS {
        let trace = Trace::new();
        let truth = trace.of_simwork(&["--keep-all", "--attach", attach], &["nccl-mixed"]);
        let passed = list(&truth, "collectives");
        let mut seen = Collective::all_of(&trace, truth["pid"].as_i64().unwrap());
        for (call, seen) in passed.iter().zip(&mut seen) {
            let call = Collective::of_truth(call);
            // Where the library draws it, only the trace knows it.
            if call.hash.is_none() && call.comm.is_some() {
                assert!(seen.hash.take().is_some(), "{seen:?}");
            }
            assert_eq!(call, *seen);
        }
        assert_eq!(passed.len(), seen.len(), "all of them and no others");
    }
}

#[test]
fn asynchronous_events_come_out_as_they_were_raised() {
    if !can_trace("asynchronous_events_come_out_as_they_were_raised") {
        return;
    }
    for attach in FLAVOURS {
        let trace = Trace::new();
        let flags = ["--keep-all", "--rdma-verbs", "--attach", attach];
        let truth = trace.of_simwork(&flags, &["ibverbs", "--events", "3"]);
        assert_eq!(truth["event_types"], serde_json::json!([10, 11, 12]));
        assert_eq!(
            trace.text(
                "SELECT group_concat(event) FROM (SELECT event FROM rdma_events ORDER BY timestamp_ns)"
            ),
            "IBV_EVENT_PORT_ERR,IBV_EVENT_LID_CHANGE,IBV_EVENT_PKEY_CHANGE",
            "{attach}"
        );
        assert_eq!(trace.count_of("ibv_get_async_event"), passed(&truth).len() as i64);
    }
}
