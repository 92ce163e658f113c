//! Traces that Ingero's makers have published, where they lie beside the project.

use crate::made::lines;
use gpuwhy_store::{Filter, Limits, Maker, Reader};
use gpuwhy_testkit::unavailable;
use std::path::PathBuf;

const VLLM: &str = "vllm-37343-logprobs-amplification.db";

/// All of them, or nothing, and says so.
fn traces() -> Vec<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces"));
    let mut traces: Vec<PathBuf> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        // Recordings of our own lie there, too.
        .filter(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("h200-")))
        .collect();
    traces.sort();
    if traces.is_empty() {
        // Nothing fetches them, so nobody can be asked to have them.
        unavailable("published", "there are no published traces beside the project");
    }
    traces
}

fn published(name: &str) -> Option<Reader> {
    let path = traces().into_iter().find(|path| path.ends_with(name))?;
    Some(Reader::open(&path).unwrap())
}

#[test]
fn every_row_is_an_event_of_ours() {
    for path in traces() {
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.origin().maker, Maker::Ingero);
        let stored = lines(&reader, "SELECT count(*) FROM main.events");
        assert_eq!(stored, [reader.event_count().unwrap().to_string()], "{path:?}");
        assert_eq!(stored, lines(&reader, "SELECT count(*) FROM events"));
        let calls = reader.calls(&Filter::default()).unwrap();
        let counted: u64 = reader.call_stats(&Filter::default()).unwrap().iter().map(|sum| sum.count).sum();
        assert_eq!(calls.len() as u64, counted);
        assert!(reader.span().unwrap().is_some() && !reader.sessions().unwrap().is_empty());
        assert!(!reader.processes().unwrap().is_empty());
        assert!(reader.coverage(None).unwrap().notes[0].contains("biased sample"));
        reader.sql("SELECT * FROM op_summary", &Limits::default()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
    }
}

/// A thread can neither begin nor end a call while it has no CPU: so it is with starts and ends as they are read here.
#[test]
fn no_call_begins_or_ends_while_its_thread_is_off_the_cpu() {
    let Some(reader) = published(VLLM) else { return };
    let inside = "SELECT count(*) FROM calls c JOIN sched_events s ON s.tid = c.tid WHERE s.event = 'sched_switch' AND \
        (c.timestamp_ns > s.timestamp_ns AND c.timestamp_ns < s.timestamp_ns + s.duration_ns OR \
        c.timestamp_ns + c.duration_ns > s.timestamp_ns AND \
        c.timestamp_ns + c.duration_ns < s.timestamp_ns + s.duration_ns) AND c.pid = 72801";
    assert_eq!(lines(&reader, inside), ["0"]);
}

#[test]
fn off_cpu_time_covers_little_of_what_was_published_as_contention() {
    let Some(reader) = published(VLLM) else { return };
    let sums = reader.off_cpu_within(&Filter::default()).unwrap();
    let of = |op: &str| sums.iter().find(|sum| sum.op == op).unwrap();
    let launch = of("cudaLaunchKernel");
    assert_eq!((launch.pid, launch.calls, launch.slow_calls), (72801, 550, 164));
    assert_eq!((launch.p50_ns, launch.p99_ns, launch.max_ns), (20_300, 5_079_382, 70_847_581));
    assert_eq!(launch.off_cpu_pct().map(f64::round), Some(3.0));
    let driver = of("cuLaunchKernel");
    assert_eq!((driver.calls, driver.slow_calls, driver.unwatched_ns), (1672, 53, 0));
    assert_eq!(driver.off_cpu_pct().map(f64::round), Some(20.0));
}

#[test]
fn a_merged_file_has_its_nodes() {
    let Some(reader) = published("sample-cluster.db") else { return };
    assert_eq!(
        lines(&reader, "SELECT node, count(*) FROM events GROUP BY 1 ORDER BY 1"),
        ["gpu-node-01|200", "gpu-node-02|200", "gpu-node-03|200"]
    );
    assert_eq!(lines(&reader, "SELECT DISTINCT op FROM cuda_events"), ["cuMemAlloc"]);
    assert_eq!(reader.sessions().unwrap().len(), 3);
}
