//! Files that are no traces, damaged or out of reach, full disks, missing privileges: said in one sentence, and nothing is
//! harmed.

use crate::refusal::{
    Frozen, Unprivileged, changed_by, open_to_all, recorded, recorded_trace, refused, sentence,
};
use crate::support::{Gated, Running, Trace, can_trace, done, gpuwhy, simwork, skip, wait_until};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn database(sql: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    fs::read(path).unwrap()
}

/// Files that neither hold a trace nor can take one: name, bytes, and what is said of them.
fn not_traces() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let trace = recorded();
    let newer = changed_by("PRAGMA user_version = 99");
    let stripped = changed_by("DROP VIEW events");
    let ours = "PRAGMA application_id = 1735423865; PRAGMA user_version = 1;";
    vec![
        (
            "text.db",
            b"epoch 1 loss 0.3\nepoch 2 loss 0.2\n".to_vec(),
            "is not a gpuwhy trace: it is no SQLite file",
        ),
        ("noise.db", vec![0xab; 20_000], "is not a gpuwhy trace: it is no SQLite file"),
        ("start.db", trace[..10].to_vec(), "is not a gpuwhy trace: it is no SQLite file"),
        ("other.db", database("CREATE TABLE notes (a, b)"), "is an SQLite file but not a gpuwhy trace"),
        (
            "version.db",
            database("CREATE TABLE calls (a); CREATE TABLE sessions (b); PRAGMA user_version = 1"),
            "is an SQLite file but not a gpuwhy trace",
        ),
        (
            "pretender.db",
            database(&format!(
                "{ours} CREATE TABLE calls (a); CREATE TABLE sessions (a); CREATE TABLE call_stats (a); \
                 CREATE TABLE events (a); CREATE TABLE ops (a)"
            )),
            "is damaged",
        ),
        ("stripped.db", fs::read(stripped.file()).unwrap(), "is damaged"),
        ("newer.db", fs::read(newer.file()).unwrap(), "was written by a newer gpuwhy (schema version 99"),
        ("cut100.db", trace[..100].to_vec(), "is damaged"),
        ("cut4096.db", trace[..4096].to_vec(), "is damaged"),
        ("half.db", trace[..trace.len() / 2].to_vec(), "is damaged"),
        ("page.db", trace[..trace.len() - 8192].to_vec(), "is damaged"),
        ("byte.db", trace[..trace.len() - 3].to_vec(), "is damaged"),
    ]
}

/// Writes each file, lets `command` refuse it, and compares.
fn all_refused(files: Vec<(&str, Vec<u8>, &str)>, command: impl Fn(&Path) -> Command) {
    for (name, bytes, words) in files {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let before = Frozen::of(folder.path());
        let message = refused(&mut command(&path), 1, &[name, words]);
        assert!(message.contains(';'), "it says what to do: {message}");
        before.assert_same(folder.path(), name);
    }
}

#[test]
fn what_is_no_trace_is_not_queried() {
    for sql in [None, Some("SELECT * FROM op_summary")] {
        let mut files = not_traces();
        files.push(("empty.db", Vec::new(), "is empty"));
        files.push(("blank.db", database("CREATE TABLE x (a); DROP TABLE x"), "blank.db-wal"));
        all_refused(files, |path| {
            let mut command = gpuwhy();
            command.arg("query").arg(path).args(sql);
            command
        });
    }
}

/// The demo writes as a trace does.
#[test]
fn what_is_no_trace_is_not_written_to() {
    all_refused(not_traces(), |path| {
        let mut command = gpuwhy();
        command.args(["demo", "--replay", "--out"]).arg(path);
        command
    });
}

#[test]
fn what_is_no_trace_is_not_traced_into() {
    if !can_trace("what_is_no_trace_is_not_traced_into") {
        return;
    }
    all_refused(not_traces(), |path| {
        let mut command = gpuwhy();
        command.args(["trace", "--duration", "1s", "--out"]).arg(path);
        command
    });
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("not/there/trace.db");
    let trace = |out: &Path| {
        let mut command = gpuwhy();
        command.args(["trace", "--duration", "1s", "--out"]).arg(out);
        command
    };
    refused(&mut trace(&missing), 1, &["its folder does not exist; create it first"]);
    refused(&mut trace(folder.path()), 1, &["is a folder"]);
    refused(&mut trace(Path::new("/dev/null")), 1, &["is not a regular file"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Wherever a page is overwritten: an answer from the others, or a sentence; and nobody writes on top of it.
#[test]
fn overwritten_pages_are_found() {
    const PAGE: usize = 8192;
    let trace = recorded();
    let mut refusals = 0;
    for page in (0..trace.len() / PAGE).step_by(6) {
        let broken = Trace::new();
        let mut bytes = trace.to_vec();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        fs::write(broken.file(), bytes).unwrap();
        let before = Frozen::of(broken.folder.path());
        let mut query = gpuwhy();
        query.arg("query").arg(broken.file()).arg("SELECT sum(duration_ns), count(rank) FROM events");
        let output = query.output().unwrap();
        if !output.status.success() {
            refusals += 1;
            sentence(&output, 1, &["trace.db"], &format!("page {page}"));
        }
        refused(gpuwhy().args(["demo", "--replay", "--out"]).arg(broken.file()), 1, &["trace.db"]);
        before.assert_same(broken.folder.path(), &format!("page {page}"));
    }
    assert!(refusals > 3, "{refusals}");
}

#[test]
fn values_that_do_not_fit_their_columns_are_damage() {
    let trace = changed_by(
        "INSERT INTO ops (op_id, op, layer, family, waits_for_gpu) VALUES (99999, 'x', 'cuda', 'other', 0)",
    );
    refused(gpuwhy().arg("query").arg(trace.file()).args(["--op", "x"]), 1, &["is damaged"]);
}

#[test]
fn missing_files_and_folders_are_named_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.db");
    refused(gpuwhy().arg("query").arg(&file), 1, &["there is no trace at", "none.db", "gpuwhy trace"]);
    let spaced = folder.path().join("two words.db");
    refused(gpuwhy().arg("query").arg(&spaced), 1, &["there is no trace at", "two words.db"]);
    refused(gpuwhy().arg("query").arg(folder.path()), 1, &["is a folder"]);
    refused(gpuwhy().args(["query", "/dev/null"]), 1, &["is not a regular file"]);
    fs::write(&file, recorded()).unwrap();
    refused(gpuwhy().arg("query").arg(file.join("below")), 1, &["there is no trace at"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_another_program_has_locked_is_said_to_be() {
    let trace = recorded_trace();
    let other = Connection::open(trace.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    refused(gpuwhy().arg("query").arg(trace.file()), 1, &["is locked by another program; close that"]);
}

#[test]
fn who_may_read_a_file_can_query_it_and_who_may_not_is_told() {
    let Some(unprivileged) = Unprivileged::new("who_may_read_a_file_can_query_it_and_who_may_not_is_told")
    else {
        return;
    };
    let trace = recorded_trace();
    open_to_all(trace.folder.path(), 0o555);
    open_to_all(&trace.file(), 0o444);
    let before = Frozen::of(trace.folder.path());
    let count = done(
        unprivileged
            .gpuwhy()
            .arg("query")
            .arg(trace.file())
            .args(["SELECT count(*) AS n FROM calls", "--format", "csv"])
            .output()
            .unwrap(),
    );
    assert_eq!(count, format!("n\r\n{}\r\n", trace.number("SELECT count(*) FROM calls")));
    let replay = |out: &Path| {
        let mut command = unprivileged.gpuwhy();
        command.args(["demo", "--replay", "--out"]).arg(out);
        command
    };
    refused(&mut replay(&trace.file()), 1, &["permission denied; write to another file"]);
    refused(
        &mut replay(&trace.folder.path().join("new.db")),
        1,
        &["permission denied; write to another file"],
    );
    open_to_all(&trace.file(), 0o600);
    refused(
        unprivileged.gpuwhy().arg("query").arg(trace.file()),
        1,
        &["permission denied; read it as its owner or as root"],
    );
    open_to_all(trace.folder.path(), 0o700);
    refused(unprivileged.gpuwhy().arg("query").arg(trace.file()), 1, &["permission denied"]);
    refused(&mut replay(&trace.file()), 1, &["permission denied; write to another file"]);
    before.assert_same(trace.folder.path(), "reading");
}

/// All of the trace is in the last five minutes: there is nothing before to compare with.
#[test]
fn a_time_longer_than_the_trace_is_refused_in_a_sentence() {
    let trace = recorded_trace();
    refused(gpuwhy().arg("compare").arg(trace.file()).args(["--since", "5m"]), 3, &["no calls in that time"]);
}

#[test]
fn without_privileges_tracing_says_what_it_needs() {
    let Some(unprivileged) = Unprivileged::new("without_privileges_tracing_says_what_it_needs") else {
        return;
    };
    let file = unprivileged.folder.path().join("trace.db");
    let fix = "run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN";
    refused(unprivileged.gpuwhy().args(["trace", "--duration", "1s", "--out"]).arg(&file), 1, &[fix]);
    refused(unprivileged.gpuwhy().args(["trace", "--duration", "1s"]), 1, &[fix]);
    assert!(!file.exists());
    let check = unprivileged.gpuwhy().arg("check").output().unwrap();
    let (lines, message) = (String::from_utf8_lossy(&check.stdout), String::from_utf8_lossy(&check.stderr));
    assert_eq!(check.status.code(), Some(1), "{message}");
    assert_eq!(
        message.lines().last(),
        Some("gpuwhy: this host cannot trace yet; the lines marked NO say what to do")
    );
    assert!(lines.contains("fix: run with sudo, or with CAP_BPF"), "{lines}");
    let check = unprivileged.gpuwhy().args(["check", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((check.status.code(), &document["ok"]), (Some(1), &serde_json::json!(false)));
}

/// Nobody has no home, no privileges, and still sees the demo.
#[test]
fn without_privileges_the_demo_is_replayed_and_says_so() {
    let Some(unprivileged) = Unprivileged::new("without_privileges_the_demo_is_replayed_and_says_so") else {
        return;
    };
    let kept = unprivileged.folder.path().join("demo.db");
    let text = done(unprivileged.gpuwhy().args(["demo", "--out"]).arg(&kept).output().unwrap());
    assert!(text.contains("REPLAYED from a recording"), "{text}");
    assert!(text.contains("cpu.preempted") && text.contains("renice"), "{text}");
    assert_eq!(text.matches("A training loop").count(), 1, "{text}");
    // The file it names can be asked.
    let file = text.split_whitespace().find(|word| word.ends_with(".db")).unwrap();
    let count = done(
        unprivileged
            .gpuwhy()
            .args(["query", file, "SELECT count(*) > 1000 AS many FROM calls", "--format", "csv"])
            .output()
            .unwrap(),
    );
    assert_eq!(count, "many\r\n1\r\n");
}

/// A folder on a small disk of its own, gone with the test.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn new(test: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "gpuwhy-e2e"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk { folder });
        }
        skip(test, "no file system can be mounted here");
        None
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("trace.db")
    }

    fn make_read_only(&self) {
        let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.folder.path()).status();
        assert!(mounted.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}

#[test]
fn a_full_disk_ends_the_trace_in_words_and_the_file_still_answers() {
    const TEST: &str = "a_full_disk_ends_the_trace_in_words_and_the_file_still_answers";
    if !can_trace(TEST) {
        return;
    }
    let Some(disk) = SmallDisk::new(TEST) else { return };
    let workload = simwork();
    let mut trace = gpuwhy();
    trace.args(["trace", "--json", "--keep-all", "--out"]).arg(disk.file()).arg("--").arg(&workload);
    refused(
        trace.args(["launch", "--launches", "300000"]),
        1,
        &["the disk is full", "what was committed is safe", "free space"],
    );
    let count = |flags: &[&str]| {
        let sql = "SELECT count(*) AS n FROM calls";
        done(
            gpuwhy()
                .arg("query")
                .arg(disk.file())
                .args([sql, "--format", "csv"])
                .args(flags)
                .output()
                .unwrap(),
        )
    };
    let kept = count(&[]);
    let number: u64 = kept.trim().lines().last().unwrap().parse().unwrap();
    assert!(number > 1000, "{kept}");
    // As an archive might be: with its log beside it, and nothing can be written.
    disk.make_read_only();
    assert_eq!(count(&[]), kept);
    refused(
        gpuwhy().args(["trace", "--duration", "1s", "--out"]).arg(disk.folder.path().join("new.db")),
        1,
        &["mounted read-only; write to another file"],
    );
}

#[test]
fn a_disk_too_small_for_a_trace_is_said_to_be_full() {
    let Some(disk) = SmallDisk::new("a_disk_too_small_for_a_trace_is_said_to_be_full") else { return };
    let filler = fs::write(disk.folder.path().join("filler"), vec![1; (6 << 20) - (200 << 10)]);
    filler.unwrap();
    refused(
        gpuwhy().args(["demo", "--replay", "--out"]).arg(disk.file()),
        1,
        &["the disk is full", "free space"],
    );
    let left: Vec<_> =
        fs::read_dir(disk.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["filler"], "nothing is left of what did not fit");
}

#[test]
fn a_trace_is_read_by_others_while_it_grows_and_written_by_nobody_else() {
    const TEST: &str = "a_trace_is_read_by_others_while_it_grows_and_written_by_nobody_else";
    if !can_trace(TEST) {
        return;
    }
    let trace = Trace::new();
    let stop = trace.folder.path().join("stop");
    let workload = Gated::start(
        &simwork(),
        &[
            "launch",
            "--launches",
            "0",
            "--via",
            "driver",
            "--hz",
            "800",
            "--stop-file",
            stop.to_str().unwrap(),
        ],
    );
    let pid = workload.pid();
    let mut running = Running::start(&trace, &["--keep-all", "--pid", &pid.to_string()]);
    workload.open();
    running.until_called(pid.into(), "cuLaunchKernel", 500);
    let writer =
        format!("another gpuwhy trace is writing {} (pid {})", trace.file().display(), running.child.id());
    refused(gpuwhy().args(["trace", "--duration", "1s", "--out"]).arg(trace.file()), 1, &[&writer]);
    refused(gpuwhy().args(["demo", "--replay", "--out"]).arg(trace.file()), 1, &[&writer]);
    let seen = done(
        gpuwhy()
            .arg("query")
            .arg(trace.file())
            .args(["--op", "cuLaunchKernel", "--format", "csv"])
            .output()
            .unwrap(),
    );
    assert!(seen.lines().count() > 100, "{seen}");
    // The first goes on, and loses nothing.
    running.until_called(pid.into(), "cuLaunchKernel", 2_000);
    fs::write(&stop, "").unwrap();
    let truth = workload.finish();
    let launches = truth["ops"]["cuLaunchKernel"].as_u64().unwrap();
    running.until_called(pid.into(), "cuLaunchKernel", launches);
    let (_, summary) = running.stop();
    assert_eq!(summary["coverage"]["lost"], 0);
    assert_eq!(trace.count_of("cuLaunchKernel") as u64, launches);
    assert_eq!(trace.number("SELECT count(*) FROM sessions"), 1);
}

#[test]
fn what_a_killed_trace_left_is_read_by_anybody_and_unchanged() {
    const TEST: &str = "what_a_killed_trace_left_is_read_by_anybody_and_unchanged";
    if !can_trace(TEST) {
        return;
    }
    let Some(unprivileged) = Unprivileged::new(TEST) else { return };
    let trace = Trace::new();
    let stop = unprivileged.folder.path().join("stop");
    let workload = Gated::start(
        &simwork(),
        &[
            "launch",
            "--launches",
            "0",
            "--via",
            "driver",
            "--hz",
            "2000",
            "--stop-file",
            stop.to_str().unwrap(),
        ],
    );
    let pid = workload.pid();
    let mut running = Running::start(&trace, &["--keep-all", "--pid", &pid.to_string()]);
    workload.open();
    running.until_called(pid.into(), "cuLaunchKernel", 500);
    wait_until("calls are committed", || trace.number("SELECT count(*) FROM calls") > 100);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    fs::write(&stop, "").unwrap();
    workload.finish();

    let log = trace.folder.path().join("trace.db-wal");
    assert!(log.exists());
    open_to_all(trace.folder.path(), 0o555);
    for file in [trace.file(), log] {
        open_to_all(&file, 0o444);
    }
    let before = Frozen::of(trace.folder.path());
    let count = |command: &mut Command| {
        done(
            command
                .arg("query")
                .arg(trace.file())
                .args(["SELECT count(*) AS n FROM calls", "--format", "csv"])
                .output()
                .unwrap(),
        )
    };
    let seen = count(&mut gpuwhy());
    assert!(seen.trim().lines().last().unwrap().parse::<u64>().unwrap() > 100, "{seen}");
    assert_eq!(count(&mut unprivileged.gpuwhy()), seen);
    before.assert_same(trace.folder.path(), "reading");
    assert_eq!(fs::read_dir(unprivileged.folder.path()).unwrap().count(), 2, "copies are cleared away");
}

/// Nobody can be told anything: the exit status says it.
#[test]
fn full_outputs_end_a_command_with_its_status() {
    let trace = recorded_trace();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let status = |command: &mut Command| command.stdout(full()).stderr(full()).status().unwrap().code();
    let file = trace.file();
    assert_eq!(
        status(gpuwhy().arg("explain").arg(&file)),
        Some(1),
        "what was asked for could not be written"
    );
    assert_eq!(status(gpuwhy().arg("query").arg(&file).arg("SELECT 1")), Some(1));
    assert_eq!(status(gpuwhy().arg("explain").arg("/nowhere.db")), Some(1));
    assert_eq!(status(gpuwhy().arg("--nonsense")), Some(2));
}

/// Another tool's file, and one whose writer was SQLite's own shell: both keep a log, and neither has one.
#[test]
fn reading_leaves_nothing_beside_a_file_whose_log_is_gone() {
    let trace = recorded_trace();
    let file = trace.file();
    let db = Connection::open(&file).unwrap();
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS extra (x); DROP TABLE extra").unwrap();
    drop(db);
    assert_eq!(fs::read_dir(trace.folder.path()).unwrap().count(), 1, "it has no log");
    let names = || -> Vec<_> {
        fs::read_dir(trace.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = Frozen::of(trace.folder.path());
    let ask = |command: &mut Command| {
        done(command.arg("explain").arg(&file).arg("--quiet").output().unwrap());
    };
    ask(&mut gpuwhy());
    done(gpuwhy().arg("query").arg(&file).arg("op_summary").output().unwrap());
    assert_eq!(names().len(), 1, "{:?}", names());
    // Whoever may not write there reads it in its place.
    if let Some(unprivileged) = Unprivileged::new("reading_leaves_nothing_beside_a_file_whose_log_is_gone") {
        open_to_all(trace.folder.path(), 0o555);
        open_to_all(&file, 0o444);
        let before = Frozen::of(trace.folder.path());
        ask(&mut unprivileged.gpuwhy());
        before.assert_same(trace.folder.path(), "reading");
        assert_eq!(names().len(), 1, "{:?}", names());
        return;
    }
    before.assert_same(trace.folder.path(), "reading");
}

/// Said before anything is loaded: without privileges nothing could be.
#[test]
fn a_target_that_cannot_be_written_is_refused_before_anything_is_loaded() {
    let Some(unprivileged) =
        Unprivileged::new("a_target_that_cannot_be_written_is_refused_before_anything_is_loaded")
    else {
        return;
    };
    let other = unprivileged.folder.path().join("notes.txt");
    fs::write(&other, "no trace").unwrap();
    open_to_all(&other, 0o666);
    for (out, words) in [
        ("/nowhere/run.db", "its folder does not exist; create it first"),
        ("/etc/run.db", "permission denied; write to another file"),
        ("/etc", "folder"),
        (other.to_str().unwrap(), "not a gpuwhy trace"),
    ] {
        refused(unprivileged.gpuwhy().args(["trace", "--out", out]), 1, &[words]);
    }
    assert_eq!(fs::read_to_string(&other).unwrap(), "no trace");
}
