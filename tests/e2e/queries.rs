//! The queries of the documentation, run as they are written.

use crate::collectives::Ranks;
use crate::refusal::{recorded_trace, refused};
use crate::support::{Running, Trace, can_trace, done, gpuwhy, sim, skip};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;

/// The blocks of SQL of a page, in order.
fn queries_of(page: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// The rows that a query answers with.
fn rows(trace: &Trace, sql: &str) -> Vec<Value> {
    let output = gpuwhy().arg("query").arg(trace.file()).args([sql, "--format", "json"]).output().unwrap();
    let text = done(output);
    let answer: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}\n{sql}"));
    match answer {
        Value::Array(rows) => rows,
        other => other["rows"].as_array().unwrap_or_else(|| panic!("no rows in {other}\n{sql}")).clone(),
    }
}

/// A trace with something for each of them: a program in Python, slow calls, collectives.
fn eventful_trace() -> Trace {
    let trace = Trace::new();
    let script = sim().join(gpuwhy_simgpu::WORKLOAD_PYTHON);
    let words = ["gil-in-call", "--steps", "10"].map(OsStr::new);
    trace.of_command(&[], &[&[OsStr::new("python3"), script.as_os_str()][..], &words].concat());
    let ranks = Ranks::start(2, &["--iters", "4"], |_| Vec::new());
    let running = Running::start(&trace, &[]);
    ranks.finish();
    running.stop();
    trace
}

#[test]
fn the_documented_queries_run_as_written() {
    const TEST: &str = "the_documented_queries_run_as_written";
    if !can_trace(TEST) {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return skip(TEST, "there is no python3");
    }
    let trace = eventful_trace();
    let queries = queries_of("queries.md");
    assert!(queries.len() >= 9, "the page has its queries: {}", queries.len());
    // Those that this trace has something to say to.
    let answered =
        ["op_summary", "FROM cuda_events\nWHERE", "FROM blame\nWHERE", "JOIN frames", "FROM watch_costs"];
    let mut seen = 0;
    for query in &queries {
        let rows = rows(&trace, query);
        if answered.iter().any(|words| query.contains(words)) {
            seen += 1;
            assert!(!rows.is_empty(), "nothing was found by:\n{query}");
        }
    }
    assert_eq!(seen, answered.len(), "each of {answered:?} is on the page once");
    let line = queries.iter().find(|query| query.contains("JOIN frames")).unwrap();
    let slowest = &rows(&trace, line)[0];
    assert!(
        slowest["file"].as_str().unwrap().ends_with("simwork.py") && slowest["line"].as_i64().unwrap() > 0,
        "the line of the slowest call: {slowest}"
    );
}

/// As the first page of the help has it, of the trace just made.
#[test]
fn the_name_of_a_view_alone_shows_it_of_the_usual_trace() {
    let trace = recorded_trace();
    let folder = tempfile::tempdir().unwrap();
    let query = |words: &[&str]| {
        let mut query = gpuwhy();
        query.current_dir(folder.path()).env("GPUWHY_DB", trace.file()).arg("query").args(words);
        query
    };
    let message = done(query(&["op_summary"]).output().unwrap());
    assert!(message.contains("p99_us") && message.lines().count() >= 3, "{message}");
    let whole = done(query(&["SELECT * FROM op_summary"]).output().unwrap());
    assert_eq!(message, whole);
    refused(&mut query(&["op_sumary"]), 1, &["op_sumary"]);
    refused(&mut query(&["missing.db"]), 1, &["missing.db"]);
    // A file of that name is the file.
    std::fs::copy(trace.file(), folder.path().join("op_summary")).unwrap();
    let of_file = done(query(&["op_summary"]).output().unwrap());
    assert!(!of_file.contains("p99_us"), "{of_file}");
}
