//! `gpuwhy merge`: nodes in one file, through the real binary.

use crate::refusal::{Frozen, recorded_trace, refused};
use crate::support::{Trace, done, gpuwhy};
use rusqlite::Connection;
use serde_json::Value;

/// A recorded demo as if another node had traced it, its clock wrong by so much.
fn node(demo: &str, host: &str, start: i64) -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", demo, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    let db = Connection::open(trace.file()).unwrap();
    db.execute("UPDATE sessions SET host = ?, start_ns = start_ns + ?", (host, start)).unwrap();
    trace
}

#[test]
fn nodes_become_one_file_that_can_be_explained_and_merged_again() {
    let nodes = [node("cpu-hog", "node-a", 0), node("late-rank", "node-b", 1), node("cpu-hog", "node-c", 2)];
    let folder = tempfile::tempdir().unwrap();
    let (two, all) = (folder.path().join("two.db"), folder.path().join("all.db"));
    let before = Frozen::of(nodes[0].folder.path());
    let merge = |files: [&std::path::Path; 2], out: &std::path::Path| {
        done(gpuwhy().arg("merge").args(files).arg("-o").arg(out).output().unwrap())
    };
    let message = merge([&nodes[0].file(), &nodes[1].file()], &two);
    assert!(message.contains("node-a") && message.contains("no collective tells"), "{message}");
    let message = merge([&two, &nodes[2].file()], &all);
    assert!(message.contains("process numbers are also of another node"), "{message}");
    before.assert_same(nodes[0].folder.path(), "merge");
    let db = Connection::open(&all).unwrap();
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for table in
        ["calls", "nccl_events", "sched_events", "blame", "call_stats", "processes", "events", "stacks"]
    {
        let sum: i64 = nodes.iter().map(|node| node.number(&format!("SELECT count(*) FROM {table}"))).sum();
        let least = if table == "stacks" { 1 } else { sum };
        let there = number(&format!("SELECT count(*) FROM {table}"));
        assert!(there >= least && there <= sum, "{table}: {there} of {sum}");
    }
    let by_node = "SELECT count(*) FROM events WHERE node = ";
    assert_eq!(number(&format!("{by_node}'node-a'")), number(&format!("{by_node}'node-c'")));
    assert_eq!(number(&format!("{by_node}'node-b'")), nodes[1].number("SELECT count(*) FROM events"));
    let explained = done(gpuwhy().args(["explain", "--json"]).arg(&all).output().unwrap());
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["trace"]["nodes"].as_array().unwrap().len(), 3);
    let hogged = explained["findings"].as_array().unwrap().iter().filter(|finding| {
        finding["causes"].as_array().unwrap().iter().any(|cause| cause["class"] == "cpu.preempted")
    });
    assert!(hogged.count() >= 2, "the hog of each of two nodes: {explained}");
}

#[test]
fn the_same_trace_twice_is_refused_and_nothing_is_left() {
    let trace = recorded_trace();
    let folder = tempfile::tempdir().unwrap();
    let (copy, out) = (folder.path().join("copy.db"), folder.path().join("out.db"));
    std::fs::copy(trace.file(), &copy).unwrap();
    let mut merge = gpuwhy();
    merge.arg("merge").arg(trace.file()).arg(&copy).arg("-o").arg(&out);
    refused(&mut merge, 1, &["they are the same trace"]);
    refused(gpuwhy().arg("merge").arg(&copy).arg("-o").arg(&out), 2, &["only one file"]);
    refused(
        gpuwhy().arg("merge").arg(&copy).arg(trace.file()).arg("-o").arg(&copy),
        2,
        &["is the trace itself"],
    );
    let other = node("lock", "other", 5);
    done(gpuwhy().arg("merge").arg(&copy).arg(other.file()).arg("-o").arg(&out).output().unwrap());
    // One that holds it already.
    let again = folder.path().join("again.db");
    refused(
        gpuwhy().arg("merge").arg(&out).arg(trace.file()).arg("-o").arg(&again),
        1,
        &["one was merged from the other"],
    );
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}
