//! Recordings of real PyTorch programs on an H200, each with one known fault or none: what is said of each, first, must not
//! change. `GPUWHY_BLESS=1` writes `expected.txt` anew; read the difference before you commit it.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its recordings has failed")]

use flate2::read::GzDecoder;
use gpuwhy_model::{Finding, Severity, is_of_library};
use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::Reader;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

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

fn explained(path: &Path) -> Explained {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let file = tempfile::Builder::new().suffix(".db").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    explain(&Reader::open(file.path()).unwrap(), &ExplainRequest::default()).unwrap()
}

/// The first one of the loop.
fn first(explained: &Explained) -> Option<&Finding> {
    explained.findings.iter().find(|finding| finding.phase.as_deref() != Some("start"))
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
    let steps = steps.map_or_else(String::new, |tree| {
        let step = if tree.found_by.is_some() { format!("{:.1} ms", tree.mean_ms) } else { "no step".into() };
        format!(", of {step}")
    });
    format!("{name}: {} {class} by {by} at {line}, saves {saves}{steps}", finding.severity.name())
}

#[test]
fn what_is_said_first_of_real_programs_does_not_change() {
    let said: String =
        recordings().iter().map(|(name, path)| in_short(name, &explained(path)) + "\n").collect();
    let file = folder().join("expected.txt");
    if std::env::var_os("GPUWHY_BLESS").is_some() {
        fs::write(&file, &said).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    assert!(expected.lines().count() >= 15);
    for (said, expected) in said.lines().zip(expected.lines()) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.lines().count(), expected.lines().count());
}

#[test]
fn good_programs_raise_no_alarm() {
    for good in ["train", "late_train", "gpu_bound", "infer", "slow_start"] {
        let explained = explained(&folder().join(format!("{good}.db.gz")));
        let alarms: Vec<&str> = explained
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Low)
            .map(|finding| finding.title.as_str())
            .collect();
        assert!(alarms.is_empty(), "{good}: {alarms:?}");
    }
}

#[test]
fn the_parts_of_a_step_sum_to_it() {
    for (name, path) in recordings() {
        for tree in explained(&path).steps {
            let sum: f64 = tree.path.iter().map(|part| part.share_pct).sum();
            assert!((sum - 100.0).abs() < 0.1, "{name} {}: {sum}", tree.phase);
            assert!(tree.path.iter().all(|part| part.saves_ms[0] <= part.saves_ms[1]), "{name}");
        }
    }
}
