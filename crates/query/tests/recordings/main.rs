//! Recordings of real PyTorch programs on an H200, each with one known fault or none: what is said of each, first, must not
//! change. `GPUWHY_BLESS=1` writes `expected.txt` anew; read the difference before you commit it.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its recordings has failed")]

use flate2::read::GzDecoder;
use gpuwhy_model::{Finding, Severity, is_of_library};
use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::Reader;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::NamedTempFile;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// By name, in order.
fn recordings() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".db.gz")?.to_string();
        Some((name, path))
    };
    let mut all: Vec<(String, PathBuf)> = files.filter_map(named).collect();
    all.sort();
    all
}

/// What is said of each, worked out once for all tests.
static EXPLAINED: LazyLock<BTreeMap<String, Explained>> =
    LazyLock::new(|| recordings().into_iter().map(|(name, path)| (name, explained(&path))).collect());

fn unpacked(path: &Path) -> NamedTempFile {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let file = tempfile::Builder::new().suffix(".db").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    file
}

fn explained(path: &Path) -> Explained {
    explained_file(unpacked(path).path())
}

fn explained_file(path: &Path) -> Explained {
    explain(&Reader::open(path).unwrap(), &ExplainRequest::default()).unwrap()
}

/// The first one of the loop.
fn first(explained: &Explained) -> Option<&Finding> {
    explained.findings.iter().find(|finding| !matches!(finding.phase.as_deref(), Some("start" | "end")))
}

/// Class, culprit, line, severity and saving in a line.
fn in_short(name: &str, explained: &Explained) -> String {
    let Some(finding) = first(explained) else { return format!("{name}: nothing") };
    let cause = finding.causes.first();
    let class = cause.map_or("", |cause| cause.class.name());
    let by = cause.and_then(|cause| cause.by.first()).map_or("nobody", |by| by.comm.as_str());
    let own = finding.place.python.iter().find(|line| !is_of_library(line));
    let line = own.map_or("no line", |line| line.rsplit('/').next().unwrap_or(line));
    let saves = finding.saves_ms_per_step.map_or_else(|| "-".into(), |ms| format!("{ms:.1} ms"));
    let steps = explained.steps.iter().find(|tree| tree.phase == "loop" && Some(tree.pid) == finding.pid);
    let steps = steps.map_or_else(String::new, |tree| match &tree.found_by {
        Some(found_by) => format!(", of {:.1} ms (by {found_by})", tree.mean_ms),
        None => ", of no step".into(),
    });
    format!("{name}: {} {class} by {by} at {line}, saves {saves}{steps}", finding.severity.name())
}

#[test]
fn what_is_said_first_of_real_programs_does_not_change() {
    let message: String =
        EXPLAINED.iter().map(|(name, explained)| in_short(name, explained) + "\n").collect();
    let file = folder().join("expected.txt");
    if std::env::var_os("GPUWHY_BLESS").is_some() {
        fs::write(&file, &message).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    assert!(expected.lines().count() >= 15);
    for (message, expected) in message.lines().zip(expected.lines()) {
        assert_eq!(message, expected);
    }
    assert_eq!(message.lines().count(), expected.lines().count());
}

#[test]
fn good_programs_raise_no_alarm() {
    for good in [
        "train",
        "late_train",
        "gpu_bound",
        "infer",
        "slow_start",
        "synced",
        "generate",
        "accumulate",
        "amp",
        "item_free",
        "graphs",
        "recompute",
    ] {
        let alarms: Vec<&str> = EXPLAINED[good]
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Low)
            .map(|finding| finding.title.as_str())
            .collect();
        assert!(alarms.is_empty(), "{good}: {alarms:?}");
    }
}

#[test]
fn what_kept_a_program_from_its_loop_is_a_finding_of_the_start_and_no_alarm() {
    let explained = &EXPLAINED["slow_start"];
    let of_path =
        |finding: &&Finding| finding.rule == "critical_path" && finding.phase.as_deref() == Some("start");
    let found: Vec<&Finding> = explained.findings.iter().filter(of_path).collect();
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.causes[0].class.name(), finding.severity), ("cpu.self", Severity::Low));
    assert!(finding.place.python[0].contains("build_vocabulary"), "{:?}", finding.place);
    // It took 3.4 of the 4.3 s before the loop, and is a share of these.
    assert!((3_200.0..3_600.0).contains(&finding.saves_ms_per_step.unwrap()), "{finding:?}");
    assert!((75.0..85.0).contains(&finding.impact.wall_pct), "{finding:?}");
    // A program that starts without ado has none.
    assert!(EXPLAINED["train"].findings.iter().all(|finding| !of_path(&finding)));
}

/// Programs that ran with their fault and without it in turns: what their mean step took more than one without the fault, and
/// that mean step, in milliseconds, as they measured it themselves.
const IN_TURNS: [(&str, f64, f64); 6] = [
    ("turns_compute", 8.05, 21.28),
    ("turns_copies", 7.64, 20.13),
    ("turns_http", 6.33, 19.5),
    ("turns_loader_sleep", 5.83, 19.13),
    ("turns_queue_sleep", 5.01, 18.73),
    ("turns_sleep", 4.84, 17.93),
];

#[test]
fn savings_are_what_leaving_the_fault_out_really_saves() {
    for (name, saving_ms, step_ms) in IN_TURNS {
        let explained = &EXPLAINED[name];
        let message = first(explained).unwrap().saves_ms_per_step.unwrap();
        assert!((message - saving_ms).abs() <= 0.15 * saving_ms, "{name}: {message} of {saving_ms}");
        let tree = explained.steps.iter().find(|tree| tree.phase == "loop").unwrap();
        assert!((tree.mean_ms - step_ms).abs() <= 0.05 * step_ms, "{name}: {} of {step_ms}", tree.mean_ms);
    }
}

#[test]
fn the_parts_of_a_step_sum_to_it() {
    for (name, explained) in EXPLAINED.iter() {
        for tree in &explained.steps {
            let sum: f64 = tree.path.iter().map(|part| part.share_pct).sum();
            assert!((sum - 100.0).abs() < 0.1, "{name} {}: {sum}", tree.phase);
            assert!(tree.path.iter().all(|part| part.saves_ms[0] <= part.saves_ms[1]), "{name}");
            let most = tree.path.iter().map(|part| part.saves_ms[1]).fold(0.0, f64::max);
            assert!(most <= 1.001 * tree.mean_ms, "{name} {}: saves {most} of {}", tree.phase, tree.mean_ms);
        }
    }
}

#[test]
fn the_idle_ledger_sums_to_the_idle_time_and_agrees_with_the_findings() {
    for (name, explained) in EXPLAINED.iter() {
        for idle in &explained.idle {
            let sum: f64 = idle.causes.iter().map(|cause| cause.ms).sum();
            let starved = idle.starved_ms.unwrap_or(sum);
            assert!((sum - starved).abs() <= 0.01 * starved + 1.0, "{name}: {sum} of {starved}");
            let (lower, upper) = (idle.busy_lower_pct.unwrap_or(0.0), idle.busy_upper_pct.unwrap_or(100.0));
            let busy = idle.busy_pct.unwrap_or(lower);
            assert!(
                (lower - 5.0..=upper + 5.0).contains(&busy),
                "{name}: {busy}% between {lower} and {upper}"
            );
            // What the first finding says takes most of the loop takes most of the idle time.
            let of_process = explained.findings.iter().find(|finding| {
                finding.pid == Some(idle.pid)
                    && finding.phase.as_deref() != Some("start")
                    && finding.severity != Severity::Low
                    && finding.rule == "critical_path"
            });
            if let Some(finding) = of_process.filter(|finding| finding.impact.wall_pct >= 40.0) {
                let class = finding.causes[0].class;
                let found = idle.causes.iter().find(|cause| cause.class == class);
                let share = found.map_or(0.0, |cause| cause.share_pct);
                assert!(share >= 35.0 || class.name() == "gpu.wait", "{name}: {share} of {}", finding.title);
            }
        }
    }
}

#[test]
fn shares_of_a_start_are_of_the_start() {
    let mut looked_at = 0;
    for (name, explained) in EXPLAINED.iter() {
        for finding in explained.findings.iter().filter(|finding| finding.phase.as_deref() == Some("start")) {
            let of_process =
                |tree: &&gpuwhy_cause::StepTree| tree.phase == "start" && Some(tree.pid) == finding.pid;
            let Some(start) = explained.steps.iter().find(of_process) else { continue };
            let share = 100.0 * finding.impact.excess_ms / (start.window.ns() as f64 / 1e6);
            let told = finding.impact.wall_pct;
            assert!(
                (told - share.min(100.0)).abs() < 1.0,
                "{name}: {told}%, really {share}: {}",
                finding.title
            );
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "{looked_at}");
}

/// Sums are of half a second: one in which the loop begins has the end of the start, too.
#[test]
fn a_context_made_before_the_loop_is_of_the_start() {
    let of_context = |finding: &&Finding| finding.op.as_deref() == Some("cuDevicePrimaryCtxRetain");
    let phases: Vec<(&String, Option<&str>)> = EXPLAINED
        .iter()
        .flat_map(|(name, explained)| explained.findings.iter().map(move |finding| (name, finding)))
        .filter(|(_, finding)| of_context(finding))
        .map(|(name, finding)| (name, finding.phase.as_deref()))
        .collect();
    assert!(phases.len() > 20, "{phases:?}");
    assert!(phases.iter().all(|(_, phase)| *phase != Some("loop")), "{phases:?}");
}

/// Versions before slices detached launch probes for a while: what they counted is the least there was.
#[test]
fn what_was_counted_until_a_probe_was_detached_is_not_all() {
    let launching = |name: &str| {
        let of_loop = |finding: &&Finding| {
            finding.phase.as_deref() == Some("loop") && finding.op.as_deref() == Some("cuLaunchKernel")
        };
        EXPLAINED[name].findings.iter().find(of_loop).unwrap().impact.clone()
    };
    let spike = launching("old_spike");
    assert!(spike.watched_pct.is_some_and(|pct| pct < 80.0) && spike.calls_interval.is_none(), "{spike:?}");
}

/// A loop whose steps nothing tells, and in the middle of it a sleep of so many milliseconds, as the probes would record it.
fn stalled(recording: &str, ms: u64) -> (NamedTempFile, u64) {
    let file = unpacked(&folder().join(format!("{recording}.db.gz")));
    let db = rusqlite::Connection::open(file.path()).unwrap();
    let (pid, start_ns): (u32, i64) = db
        .query_row(
            "SELECT pid, (min(window_start_ns) + max(window_start_ns)) / 2 FROM call_stats WHERE op LIKE '%Launch%' \
             GROUP BY pid ORDER BY sum(count) DESC",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let ns = ms * 1_000_000;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE place AS SELECT stack_id FROM cpu_samples WHERE pid = {pid} AND stack_id IS NOT NULL LIMIT 1;
         DELETE FROM cpu_samples WHERE timestamp_ns BETWEEN {start_ns} AND {start_ns} + {ns};
         INSERT INTO sched_events (timestamp_ns, duration_ns, event, pid, tid, woken_by, syscall)
             VALUES ({start_ns}, {ns}, 'sleep', {pid}, {pid}, 'timer', 230);
         INSERT INTO wait_samples (timestamp_ns, pid, tid, since_ns, reason, stack_id, weight_ns)
             SELECT {start_ns} + {ns} / 2, {pid}, {pid}, {start_ns}, 'sleep', stack_id, 50000000 FROM place;"
    ))
    .unwrap();
    (file, start_ns.cast_unsigned())
}

#[test]
fn one_stall_in_a_loop_without_steps_is_an_outlier_with_its_time_and_length() {
    for (recording, ms) in [("infer", 300), ("infer", 1_000), ("launch_bound", 400), ("graphs", 500)] {
        let (file, start_ns) = stalled(recording, ms);
        let explained = explained_file(file.path());
        let finding = first(&explained).unwrap();
        assert_eq!(finding.causes[0].class.name(), "self.sleep", "{recording}: {}", finding.title);
        assert!(finding.severity <= Severity::Medium, "{recording}: {}", finding.title);
        assert!(finding.title.contains(" stalled for "), "{recording}: {}", finding.title);
        let tree = explained.steps.iter().find(|tree| tree.phase == "loop").unwrap();
        let [stall] = tree.outliers.as_slice() else { panic!("{recording}: {:?}", tree.outliers) };
        assert!((stall.ms - ms as f64).abs() < 1.0, "{recording}: {} of {ms}", stall.ms);
        assert!(stall.start_ns.abs_diff(start_ns) < 1_000_000, "{recording}");
    }
}
