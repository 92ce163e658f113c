//! `explain` and `compare`: shares that sum to 100, the same answer for the same rows in any order, and what another tool's
//! file supports.

use crate::made::{START, attributed, call, ops, window};
use gpuwhy_model::{Batch, Blame, BlameRow, Call, CallWindow, Cause, Facts, Process};
use gpuwhy_query::{ExplainRequest, QueryError, Side, compare, explain};
use gpuwhy_store::{Options, Reader, SessionInfo, Writer};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// As long as the windows say that calls are.
fn slow(second: u64) -> Call {
    let blame = Blame { oncpu_ns: 16_000_000, runq_ns: 24_000_000, ..Blame::default() };
    Call { duration_ns: 40_000_000, blame, ..call(second, 1, 10) }
}

/// Ten seconds of launches of which a hog takes most, in the order of `seconds`.
fn trace(seconds: impl Iterator<Item = u64>) -> (TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap();
    let process =
        Process { pid: 10, start_ns: START, comm: "train".into(), rank: Some(3), ..Process::default() };
    writer.write(&Batch { processes: vec![process], ..Batch::default() }, &Facts::default()).unwrap();
    for second in seconds {
        let batch = Batch {
            windows: vec![window(second, 1, 10, 40_000_000)],
            calls: vec![slow(second)],
            ..Batch::default()
        };
        let mut blame = vec![
            attributed(second, 1, Cause::CpuPreempted, (99, "hog"), 200_000_000),
            attributed(second, 1, Cause::CpuPreempted, (98, "other"), 40_000_000),
            attributed(second, 1, Cause::CpuSelf, (0, ""), 160_000_000),
        ];
        if second % 2 == 0 {
            blame.reverse();
        }
        writer.write(&batch, &Facts { blame, ..Facts::default() }).unwrap();
    }
    writer.finish(START + 10_000_000_000).unwrap();
    let reader = Reader::open(&path).unwrap();
    (folder, reader)
}

fn answer(reader: &Reader) -> Value {
    let mut answer = serde_json::to_value(explain(reader, &ExplainRequest::default()).unwrap()).unwrap();
    answer["trace"]["file"] = Value::Null;
    answer
}

#[test]
fn the_hog_is_named_and_shares_sum_to_100() {
    let (_folder, reader) = trace(0..10);
    let answer = answer(&reader);
    let first = &answer["findings"][0];
    assert_eq!(first["op"], "cuLaunchKernel");
    assert_eq!((&first["pid"], &first["process"], &first["rank"]), (&10.into(), &"train".into(), &3.into()));
    assert_eq!(first["causes"][0]["class"], "cpu.preempted");
    assert_eq!(first["causes"][0]["by"][0]["comm"], "hog");
    assert_eq!(first["impact"]["calls"], 100);
    for finding in answer["findings"].as_array().unwrap() {
        let shares = finding["causes"].as_array().unwrap();
        let sum: f64 = shares.iter().map(|share| share["share_pct"].as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 0.01, "{sum} in {finding}");
        assert!(finding["explained_pct"].as_f64().unwrap() <= 100.0);
    }
    // Taken time: 2.4 of 10 s; a launch computes for 50 us at most.
    assert_eq!(first["severity"], "high");
    let tail = answer["tail"].as_array().unwrap();
    assert!(tail.iter().any(|tail| tail["op"] == "cuLaunchKernel" && tail["quantile"] == "p99.9"));
}

#[test]
fn rows_in_any_order_give_the_same_bytes() {
    let (_one, forward) = trace(0..10);
    let (_two, backward) = trace((0..10).rev());
    let (_three, mixed) = trace([3, 9, 0, 7, 5, 1, 8, 2, 6, 4].into_iter());
    let text = answer(&forward).to_string();
    assert_eq!(text, answer(&forward).to_string());
    assert_eq!(text, answer(&backward).to_string());
    assert_eq!(text, answer(&mixed).to_string());
}

#[test]
fn what_is_not_there_is_said() {
    let (_folder, reader) = trace(0..2);
    for request in [
        ExplainRequest { pid: Some(4711), ..ExplainRequest::default() },
        ExplainRequest { op: Some("cudaMalloc".into()), ..ExplainRequest::default() },
    ] {
        let error = explain(&reader, &request).unwrap_err();
        assert!(matches!(error, QueryError::NoData(_)), "{error}");
        assert!(error.to_string().contains("cuLaunchKernel"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    let session = SessionInfo { start_ns: START, ..SessionInfo::default() };
    Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap().finish(START).unwrap();
    let error = explain(&Reader::open(&path).unwrap(), &ExplainRequest::default()).unwrap_err();
    assert_eq!(error.exit_status(), 3, "{error}");
}

#[test]
fn two_traces_are_compared() {
    let (_one, before) = trace(0..5);
    let (_two, after) = trace(0..10);
    let side = |reader| Side { reader, from_ns: None, to_ns: None };
    let compared = compare(&side(&before), &side(&after)).unwrap();
    let launches = &compared.comparison.operations[0];
    assert_eq!(launches.op, "cuLaunchKernel");
    let calls = |side: &Option<gpuwhy_cause::OpSide>| side.as_ref().unwrap().calls;
    assert_eq!((calls(&launches.a), calls(&launches.b)), (Some(50), Some(100)));
    assert!(!launches.beyond_noise);
}

/// A published file of another tool; nothing where it is not there.
fn published(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    path.exists().then_some(path)
}

#[test]
fn of_another_tools_trace_no_more_is_claimed_than_it_supports() {
    let Some(path) = published("vllm-37343-logprobs-amplification.db") else { return };
    let began = std::time::Instant::now();
    let explained = explain(&Reader::open(&path).unwrap(), &ExplainRequest::default()).unwrap();
    assert!(began.elapsed().as_secs() < 5, "in a debug build on a busy machine");
    for (op, share, p50_us, p99_us) in
        [("cudaLaunchKernel", "3%", 20.3, 5079.0), ("cuLaunchKernel", "20%", 18.3, 137.2)]
    {
        let finding = explained.findings.iter().find(|finding| finding.op.as_deref() == Some(op)).unwrap();
        let evidence = finding.causes[0].evidence.join("; ");
        let covers = format!("off-CPU time of the calling thread covers {share} of its slow time");
        assert!(evidence.contains(&covers), "{evidence}");
        assert!(evidence.contains("biased sample"), "{evidence}");
        assert_eq!((finding.causes[0].class, finding.causes[0].by.len()), (Cause::Unknown, 0));
        assert!((finding.impact.p50_us - p50_us).abs() < 0.1, "{}", finding.impact.p50_us);
        assert!((finding.impact.p99_us - p99_us).abs() < 1.0, "{}", finding.impact.p99_us);
    }
    assert!(explained.coverage.notes.iter().any(|note| note.contains("biased sample")));
}

/// Half a second in which all calls come at the end: their window is mostly behind the loop.
#[test]
fn calls_in_the_last_moment_of_a_short_program_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let session = SessionInfo { start_ns: START, ..SessionInfo::default() };
    let mut writer = Writer::create_or_append(&path, &session, &ops(), &Options::default()).unwrap();
    let end_ns = START + 534_000_000;
    let call = Call { start_ns: START + 531_000_000, ..call(0, 1, 10) };
    let window =
        CallWindow { window_start_ns: START + 327_000_000, window_ns: 500_000_000, ..window(0, 1, 10, 1000) };
    let process =
        Process { pid: 10, start_ns: START - 300_000_000, end_ns: Some(end_ns), ..Process::default() };
    let batch =
        Batch { calls: vec![call], windows: vec![window], processes: vec![process], ..Batch::default() };
    let row = BlameRow {
        window_start_ns: START + 327_000_000,
        ..attributed(0, 1, Cause::CpuSelf, (0, ""), 2_000_000)
    };
    writer.write(&batch, &Facts { blame: vec![row], ..Facts::default() }).unwrap();
    writer.finish(end_ns).unwrap();
    explain(&Reader::open(&path).unwrap(), &ExplainRequest::default()).unwrap();
}
