//! What `gpuwhy export` writes, read by other people's programs: they find what the trace has, no more and no less.

use crate::explain::example;
use crate::readers::readers;
use crate::refusal::{Frozen, changed_by, recorded_trace, refused};
use crate::support::{Trace, done, gpuwhy};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a reader found.
fn read(python: &Path, script: &str, words: &[&Path]) -> Value {
    let script = format!("{}/../../tests/e2e/readers/read_{script}.py", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python).arg("-B").arg(script).args(words).output().unwrap();
    serde_json::from_str(&done(output)).unwrap()
}

/// A recorded demo.
fn demo(name: &str) -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", name, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    trace
}

fn export(trace: &Trace, format: &str, flags: &[&str]) -> PathBuf {
    let out = trace.folder.path().join(format!("out.{format}"));
    let output = gpuwhy()
        .arg("export")
        .arg(trace.file())
        .args(["--force", "--format", format, "-o"])
        .arg(&out)
        .args(flags)
        .output()
        .unwrap();
    let message = done(output);
    assert!(message.contains(format) && message.contains("rows"), "{message}");
    out
}

/// By layer: how many events, and the sum of their durations.
fn layers(trace: &Trace) -> BTreeMap<String, (i64, i64)> {
    let db = trace.db();
    let mut rows =
        db.prepare("SELECT layer, count(*), ifnull(sum(duration_ns), 0) FROM events GROUP BY layer").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Kept calls and collectives: how many, and how long.
fn kept(trace: &Trace) -> (i64, i64) {
    let sum = |what: &str| {
        trace.number(&format!(
            "SELECT (SELECT {what} FROM calls) + (SELECT ifnull({what}, 0) FROM nccl_events)"
        ))
    };
    (sum("count(*)"), sum("sum(duration_ns)"))
}

/// Time of threads between calls: waits one by one, and what samples of running code stand for. Asked of the program, which reads
/// older files as if they were of today.
fn between(trace: &Trace) -> i64 {
    let waits: Vec<String> = ["sched_events", "io_events", "net_events", "mem_events"]
        .map(|table| {
            format!("SELECT duration_ns AS ns FROM {table} WHERE op IS NULL AND duration_ns > 0 AND event NOT IN ('request', 'oom_kill')")
        })
        .into();
    let sql = format!(
        "SELECT ifnull(sum(ns), 0) AS ns FROM ({} UNION ALL SELECT weight_ns FROM cpu_samples WHERE op IS NULL \
         UNION ALL SELECT coalesce(weight_ns, 250000000) FROM wait_samples WHERE op IS NULL AND reason = 'on_cpu' \
         AND tid NOT IN (SELECT tid FROM cpu_samples))",
        waits.join(" UNION ALL ")
    );
    let message =
        done(gpuwhy().arg("query").arg(trace.file()).args([&sql, "--format", "json"]).output().unwrap());
    serde_json::from_str::<Value>(&message).unwrap()["rows"][0]["ns"].as_i64().unwrap()
}

fn lost(trace: &Trace) -> i64 {
    trace.number("SELECT ifnull(sum(count), 0) FROM loss")
}

#[test]
fn perfetto_classes_find_every_event_with_its_time_and_arrows_that_go_forward() {
    let test = "perfetto_classes_find_every_event_with_its_time_and_arrows_that_go_forward";
    let Some(python) = readers(test) else { return };
    for (name, arrow) in [
        ("cpu-hog", "cause to sched"),
        ("late-rank", "nccl to rank"),
        ("gpu-busy", "cuda to cuda"),
        ("tour", "cuda to cuda"),
        ("h200-item", "cuda to cuda"),
    ] {
        let trace = demo(name);
        let found = read(python, "perfetto", &[&export(&trace, "perfetto", &[])]);
        for (layer, (count, ns)) in layers(&trace) {
            assert_eq!(found["slices"][&layer], count, "{name}: {layer} {found}");
            assert_eq!(found["ns"][&layer], ns, "{name}: {layer}");
        }
        assert!(found["arrows"][arrow].as_u64() > Some(0), "{name}: no arrow {arrow}: {}", found["arrows"]);
        // Some of these files are older than `cpu_samples`; the tests of samples export those.
        let stacked: i64 = ["events", "calls_in_flight", "wait_samples"]
            .map(|table| {
                trace.number(&format!(
                    "SELECT count(*) FROM {table} WHERE stack_id IN (SELECT stack_id FROM frames)"
                ))
            })
            .iter()
            .sum();
        assert_eq!(found["stacked"], stacked, "{name}");
        for column in ["sm_pct", "power_mw"] {
            let samples = trace.number(&format!("SELECT count({column}) FROM gpu_samples"));
            assert_eq!(found["counters"][column].as_i64().unwrap_or(0), samples, "{name}: {column}");
        }
        assert_eq!(
            found["slices"]["gpu_time"].as_i64().unwrap_or(0),
            trace.number("SELECT count(*) FROM gpu_time"),
            "{name}"
        );
        let explained = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
        let explained: Value = serde_json::from_str(&explained).unwrap();
        assert_eq!(
            found["findings"].as_array().unwrap().len(),
            explained["findings"].as_array().unwrap().len(),
            "{name}"
        );
        assert_eq!(found["about"]["coverage.lost"], explained["coverage"]["lost"].to_string(), "{name}");
        let processes = trace.number("SELECT count(DISTINCT pid) FROM events WHERE pid IS NOT NULL") as usize;
        assert!(found["processes"].as_array().unwrap().len() >= processes, "{name}");
    }
}

/// As the program calls them: a thread names itself after it began.
#[test]
fn threads_have_their_names_in_perfetto() {
    let Some(python) = readers("threads_have_their_names_in_perfetto") else { return };
    for (name, threads) in [
        ("old-spike", &["python3", "pt_autograd_0"][..]),
        ("loader-cpu", &["pt_autograd_0", "pt_data_worker"]),
    ] {
        let trace = Trace::new();
        let file = example(name, trace.folder.path());
        std::fs::rename(file, trace.file()).unwrap();
        let found = read(python, "perfetto", &[&export(&trace, "perfetto", &[])]);
        for thread in threads {
            assert!(found["threads"].as_array().unwrap().contains(&(*thread).into()), "{name}: {found}");
        }
    }
}

#[test]
fn ranks_and_streams_have_tracks_of_their_own() {
    let test = "ranks_and_streams_have_tracks_of_their_own";
    let Some(python) = readers(test) else { return };
    let trace = demo("late-rank");
    let found = read(python, "perfetto", &[&export(&trace, "perfetto", &[])]);
    let tracks: Vec<&str> = found["tracks"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let ranks = trace.number("SELECT count(DISTINCT comm_id_hash || rank) FROM nccl_events") as usize;
    assert_eq!(tracks.iter().filter(|track| track.starts_with("rank ")).count(), ranks, "{tracks:?}");
    assert!(tracks.contains(&"Findings"), "{tracks:?}");
    assert!(found["slices"]["rank"].as_i64() > Some(0));
}

#[test]
fn chrome_has_every_event_and_slices_that_nest() {
    for name in ["cpu-hog", "late-rank", "h200-item"] {
        let trace = demo(name);
        let out = export(&trace, "chrome", &[]);
        let found: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
        let events = found["traceEvents"].as_array().unwrap();
        let mut sums: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        let mut tracks: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
        // To the nanosecond.
        let ns = |value: &Value| (value.as_f64().unwrap_or(0.0) * 1e3).round() as i64;
        for event in events.iter().filter(|event| ["X", "i"].contains(&event["ph"].as_str().unwrap())) {
            let sum = sums.entry(event["cat"].as_str().unwrap().into()).or_default();
            sum.0 += 1;
            sum.1 += ns(&event["dur"]);
            if event["ph"] == "X" {
                let place = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
                tracks.entry(place).or_default().push((ns(&event["ts"]), ns(&event["dur"])));
            }
        }
        for (layer, expected) in layers(&trace) {
            assert_eq!(sums[&layer], expected, "{name}: {layer}");
        }
        for (place, slices) in tracks {
            let mut open: Vec<i64> = Vec::new();
            for (start, duration) in slices {
                open.retain(|end| *end > start);
                assert!(open.iter().all(|end| start + duration <= *end), "{name}: {place:?} at {start}");
                open.push(start + duration);
            }
        }
        assert_eq!(found["otherData"]["coverage"]["lost"], lost(&trace));
        assert!(found["otherData"]["start_ns"].as_u64() > Some(1 << 60));
    }
}

#[test]
fn profiles_have_every_kept_call_and_every_nanosecond() {
    let test = "profiles_have_every_kept_call_and_every_nanosecond";
    let Some(python) = readers(test) else { return };
    for name in ["cpu-hog", "late-rank", "h200-item"] {
        let trace = demo(name);
        let (calls, in_calls) = kept(&trace);
        let ns = in_calls + between(&trace);
        assert!(ns > in_calls, "{name}: no time between calls");
        let pprof = read(python, "pprof", &[&export(&trace, "pprof", &[])]);
        assert_eq!(pprof["types"], json!([["calls", "count"], ["time", "nanoseconds"]]));
        assert_eq!(pprof["default"], "time");
        assert_eq!(pprof["sums"], json!([calls, ns]), "{name}");
        assert!(
            pprof["comments"]
                .as_array()
                .unwrap()
                .contains(&json!(format!("coverage.lost: {}", lost(&trace)))),
            "{pprof}"
        );
        let speedscope = read(python, "speedscope", &[&export(&trace, "speedscope", &[])]);
        assert_eq!(speedscope["ns"], ns, "{name}");
        let folded = std::fs::read_to_string(export(&trace, "folded", &[])).unwrap();
        assert_eq!(folded_ns(&folded), ns, "{name}");
    }
    // What the recorded program's line is called, and what its time went to.
    let trace = demo("h200-item");
    let folded = std::fs::read_to_string(export(&trace, "folded", &[])).unwrap();
    let python = trace.text("SELECT function FROM frames WHERE kind = 'python' LIMIT 1");
    assert!(folded.contains(&format!(";{python} (")), "{python} is not in {folded}");
    assert!(folded.contains(";[gpu.wait] "), "{folded}");
    let pprof = read(readers(test).unwrap(), "pprof", &[&export(&trace, "pprof", &[])]);
    let called = pprof["by_op"].as_object().unwrap().values().filter(|calls| calls.as_i64() > Some(0));
    assert_eq!(called.count() as i64, trace.number("SELECT count(DISTINCT op_id) FROM calls"));
    assert!(pprof["by_op"].get("waits: futex").is_some(), "{}", pprof["by_op"]);
}

/// The sum of the last word of each line.
fn folded_ns(folded: &str) -> i64 {
    folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum()
}

#[test]
fn duckdb_and_pyarrow_find_the_same_rows_sums_and_meanings() {
    let test = "duckdb_and_pyarrow_find_the_same_rows_sums_and_meanings";
    let Some(python) = readers(test) else { return };
    for name in ["tour", "late-rank", "h200-item"] {
        let trace = demo(name);
        let out = export(&trace, "parquet", &[]);
        let found = read(python, "parquet", &[&out, &trace.file()]);
        assert!(found["columns"].as_u64() > Some(700), "{found}");
        assert!(found["rows"].as_i64().unwrap() > trace.number("SELECT count(*) FROM events"), "{found}");
        assert_eq!(found["coverage"]["lost"], lost(&trace));
    }
}

#[test]
fn a_part_of_a_trace_is_exported_as_it_is_asked_for() {
    let trace = demo("cpu-hog");
    let newest = trace.number("SELECT max(timestamp_ns) FROM calls");
    let pid = trace.number("SELECT pid FROM calls GROUP BY pid ORDER BY count(*) DESC LIMIT 1").to_string();
    let events = |flags: &[&str]| -> Vec<Value> {
        let out = export(&trace, "chrome", flags);
        let found: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
        found["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["cat"] == "cuda")
            .cloned()
            .collect()
    };
    let all = events(&[]).len() as i64;
    assert_eq!(all, trace.number("SELECT count(*) FROM cuda_events"));
    let mine = events(&["--pid", &pid]);
    assert_eq!(
        mine.len() as i64,
        trace.number(&format!("SELECT count(*) FROM cuda_events WHERE pid = {pid}"))
    );
    let newest_of_all = trace
        .number("SELECT max(timestamp_ns) FROM events")
        .max(trace.number("SELECT max(window_start_ns) FROM call_stats"));
    let late = events(&["--since", "1s"]).len() as i64;
    let from = newest_of_all - 1_000_000_000;
    assert_eq!(late, trace.number(&format!("SELECT count(*) FROM cuda_events WHERE timestamp_ns >= {from}")));
    assert!(late < all && newest > from);
    let out = trace.folder.path().join("nothing.json");
    let command = |flags: &[&str]| {
        let mut command = gpuwhy();
        command.arg("export").arg(trace.file()).args(["--format", "chrome", "-o"]).arg(&out).args(flags);
        command
    };
    refused(&mut command(&["--pid", "4000000000"]), 3, &["no events of process 4000000000"]);
    refused(&mut command(&["--to", "2000-01-01T00:00:00Z"]), 3, &["no events"]);
    assert!(!out.exists());
}

/// Names as somebody would choose them who wants to break what shows them.
#[test]
fn hostile_names_break_nothing_and_are_bounded() {
    let test = "hostile_names_break_nothing_and_are_bounded";
    let Some(python) = readers(test) else { return };
    let hostile =
        "'</script>\"};' || char(27) || '[2J' || char(10) || char(8238) || char(0) || ';9 9' || char(9)";
    let trace = changed_by(&format!(
        "UPDATE processes SET comm = {hostile}, cmdline = hex(zeroblob(1000000));
         UPDATE threads SET comm = {hostile};
         UPDATE ops SET op = {hostile} || op_id;
         INSERT OR REPLACE INTO frames (stack_id, depth, kind, function, file, line, module)
             VALUES (424242, 0, 'native', hex(zeroblob(600000)), {hostile}, 7, {hostile});
         INSERT OR REPLACE INTO frames (stack_id, depth, kind, function, file, line)
             VALUES (424242, 1, 'python', {hostile}, CAST(x'ff00fe' AS TEXT), -1);
         UPDATE calls SET stack_id = 424242 WHERE rowid % 2;
         INSERT INTO annotations (timestamp_ns, event, value, labels, pid)
             SELECT timestamp_ns, {hostile}, hex(zeroblob(600000)), {hostile}, pid FROM calls LIMIT 3;
         INSERT INTO sched_events (timestamp_ns, duration_ns, event, pid, tid, by_pid, by_tid, by_comm)
             SELECT timestamp_ns + 5, duration_ns + 1000, {hostile}, pid, tid, 7, 8, {hostile} FROM calls LIMIT 500;
         INSERT INTO loss (start_ns, end_ns, probe, cpu, reason, count) VALUES (1, 9223372036854775807, {hostile}, 0, 'x', 77);
         UPDATE sessions SET host = {hostile};"
    ));
    let perfetto = read(python, "perfetto", &[&export(&trace, "perfetto", &[])]);
    assert_eq!(perfetto["unprintable"], 0, "{perfetto}");
    assert!(perfetto["longest_text"].as_u64() < Some(700), "{perfetto}");
    assert_eq!(perfetto["about"]["coverage.lost"], "77");
    for (layer, (count, _)) in layers(&trace) {
        assert_eq!(perfetto["slices"][&layer], count, "{layer}");
    }
    let chrome: Value =
        serde_json::from_slice(&std::fs::read(export(&trace, "chrome", &[])).unwrap()).unwrap();
    assert_eq!(chrome["otherData"]["coverage"]["lost"], 77);
    let (calls, in_calls) = kept(&trace);
    let ns = in_calls + between(&trace);
    let pprof = read(python, "pprof", &[&export(&trace, "pprof", &[])]);
    assert_eq!(pprof["sums"], json!([calls, ns]));
    assert!(pprof["longest"].as_u64() < Some(5000), "{}", pprof["longest"]);
    let speedscope = read(python, "speedscope", &[&export(&trace, "speedscope", &[])]);
    assert_eq!(speedscope["ns"], ns);
    assert!(speedscope["longest"].as_u64() < Some(700));
    assert_eq!(speedscope["coverage"]["lost"], 77);
    let folded = std::fs::read_to_string(export(&trace, "folded", &[])).unwrap();
    assert_eq!(folded_ns(&folded), ns);
    assert!(folded.chars().all(|c| c == '\n' || !c.is_control()), "{folded:.500}");
    let parquet = read(python, "parquet", &[&export(&trace, "parquet", &[]), &trace.file()]);
    assert_eq!(parquet["coverage"]["lost"], 77);
}

/// A file of another tool goes through the same formats.
#[test]
fn traces_of_ingero_are_exported_with_what_they_cannot_tell() {
    let test = "traces_of_ingero_are_exported_with_what_they_cannot_tell";
    let Some(python) = readers(test) else { return };
    let trace = Trace::new();
    let db = Connection::open(trace.file()).unwrap();
    db.execute_batch(include_str!("../../crates/store/tests/trace_file/ingero.sql")).unwrap();
    db.execute_batch(
        "INSERT INTO sessions (started_at) VALUES (1790000000000000000);
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
         INSERT INTO events (timestamp, pid, tid, source, op, duration)
             SELECT 1790000000000000000 + i * 1000000, 42, 43, 1, 1 + i % 2, 5000 + i FROM n;",
    )
    .unwrap();
    drop(db);
    let expected: i64 = (0..1000).map(|i| 5000 + i).sum();
    let perfetto = read(python, "perfetto", &[&export(&trace, "perfetto", &[])]);
    assert_eq!(
        (perfetto["slices"]["cuda"].clone(), perfetto["ns"]["cuda"].clone()),
        (json!(1000), json!(expected))
    );
    assert!(perfetto["about"]["coverage.notes"].as_str().unwrap().len() > 10, "{perfetto}");
    let pprof = read(python, "pprof", &[&export(&trace, "pprof", &[])]);
    assert_eq!(pprof["sums"], json!([1000, expected]));
    assert_eq!(pprof["by_cause"], json!({"unknown": expected}));
    let folded = std::fs::read_to_string(export(&trace, "folded", &[])).unwrap();
    assert_eq!(folded_ns(&folded), expected);
    for format in ["chrome", "speedscope", "parquet"] {
        assert!(export(&trace, format, &[]).exists());
    }
}

#[test]
fn nothing_is_overwritten_unasked_and_nothing_half_done_is_left() {
    let trace = recorded_trace();
    let before = Frozen::of(trace.folder.path());
    let export = |out: &Path, format: &str, flags: &[&str]| {
        let mut command = gpuwhy();
        command.arg("export").arg(trace.file()).args(["--format", format, "-o"]).arg(out).args(flags);
        command
    };
    // The trace itself is never replaced.
    refused(&mut export(&trace.file(), "folded", &["--force"]), 2, &["is the trace itself"]);
    before.assert_same(trace.folder.path(), "onto itself");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    std::fs::write(&out, "mine").unwrap();
    refused(&mut export(&out, "folded", &[]), 1, &["is there already", "--force"]);
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    done(export(&out, "folded", &["--force"]).output().unwrap());
    assert_ne!(std::fs::read(&out).unwrap(), b"mine");
    // A folder with other things in it is not replaced even so.
    let precious = folder.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("thesis.tex"), "mine").unwrap();
    refused(&mut export(&precious, "parquet", &[]), 1, &["is there already"]);
    refused(&mut export(&precious, "parquet", &["--force"]), 1, &["holds other things than .parquet files"]);
    assert!(precious.join("thesis.tex").exists());
    let tables = folder.path().join("tables");
    done(export(&tables, "parquet", &[]).output().unwrap());
    let files = std::fs::read_dir(&tables).unwrap().count();
    done(export(&tables, "parquet", &["--force"]).output().unwrap());
    assert_eq!(std::fs::read_dir(&tables).unwrap().count(), files);
    refused(&mut export(Path::new("-"), "parquet", &[]), 2, &["cannot go to stdout"]);
    refused(
        &mut export(&folder.path().join("no/such/file"), "folded", &[]),
        1,
        &["its folder does not exist"],
    );
    refused(&mut export(&precious, "folded", &["--force"]), 1, &["it is a folder"]);
    refused(&mut export(&out, "jpeg", &[]), 2, &["jpeg", "perfetto"]);
    // A trace that turns out to be damaged on the way.
    let damaged = folder.path().join("damaged.db");
    let mut bytes = std::fs::read(trace.file()).unwrap();
    let length = bytes.len();
    bytes[length / 2..].iter_mut().for_each(|byte| *byte = 0x5a);
    std::fs::write(&damaged, bytes).unwrap();
    for format in ["perfetto", "chrome", "pprof", "speedscope", "folded", "parquet"] {
        let out = folder.path().join(format!("of-damaged-{format}"));
        let output =
            gpuwhy().arg("export").arg(&damaged).args(["--format", format, "-o"]).arg(&out).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}");
        assert!(!out.exists(), "{format}");
    }
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn a_stream_goes_to_stdout_and_ends_with_its_reader() {
    let trace = recorded_trace();
    let out = done(
        gpuwhy().arg("export").arg(trace.file()).args(["--format", "folded", "-o", "-"]).output().unwrap(),
    );
    assert_eq!(folded_ns(&out), kept(&trace).1 + between(&trace));
    let script = format!(
        "'{}' export '{}' --format chrome -o - | head -c 100 >/dev/null; test ${{PIPESTATUS[0]}} = 0",
        env!("CARGO_BIN_EXE_gpuwhy"),
        trace.file().display()
    );
    done(Command::new("bash").args(["-c", &script]).output().unwrap());
}

#[test]
fn help_names_every_format_from_the_table() {
    let help = done(gpuwhy().args(["export", "--help"]).output().unwrap());
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for format in gpuwhy_export::FORMATS {
        assert!(words.contains(&format!("- {}: {}", format.name, format.about)), "{}: {help}", format.name);
    }
}

#[test]
fn the_name_of_the_file_says_the_format_unless_it_could_be_several() {
    let trace = recorded_trace();
    let folder = tempfile::tempdir().unwrap();
    let export = |name: &str| {
        let mut command = gpuwhy();
        command.arg("export").arg(trace.file()).arg("-o").arg(folder.path().join(name));
        command
    };
    for (name, format) in [
        ("a.pprof", "pprof"),
        ("a.pftrace", "perfetto"),
        ("a.folded", "folded"),
        ("a.speedscope.json", "speedscope"),
    ] {
        let message = done(export(name).output().unwrap());
        assert!(message.contains(&format!("{name}: {format},")), "{message}");
    }
    refused(&mut export("a.json"), 2, &["a.json may be chrome or speedscope", "--format"]);
    refused(&mut export("a.jpeg"), 2, &["says no format", "--format", ".pftrace"]);
    refused(&mut export("a"), 2, &["says no format"]);
    refused(gpuwhy().arg("export").arg(trace.file()).args(["-o", "-"]), 2, &["stdout", "--format"]);
    for name in ["a.json", "a.jpeg", "a"] {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
}
