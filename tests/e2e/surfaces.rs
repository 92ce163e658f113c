//! What users type and read: flags, help, formats, files, pipes, exit status.

use crate::refusal::{Frozen, Unprivileged, open_to_all, recorded, recorded_trace, refused};
use crate::support::{Trace, alone, can_trace, done, gpuwhy, skip};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Wrong usage: status 2, what is wrong in one sentence, nothing on stdout.
fn misused(words: &[&str], message: &str) {
    let output = gpuwhy().args(words).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
    assert!(text.starts_with("gpuwhy: ") && text.lines().count() == 1, "{words:?}: {text}");
    assert!(text.contains(message), "{words:?}: {text}");
    assert!(output.stdout.is_empty(), "{words:?}");
}

#[test]
fn wrong_usage_is_named_and_has_its_status() {
    for (words, message) in [
        (&["nosuch"][..], "there is no file or command 'nosuch'"),
        (&["run.bd"], "there is no file or command 'run.bd'"),
        (&["explian"], "did you mean `gpuwhy explain`?"),
        (&["trace", "--nosuch"], "--nosuch"),
        (&["check", "surplus"], "surplus"),
        (&["version", "--loud"], "--loud"),
        (&["trace", "--duration", "5x"], "'5x' is not a duration; write 90s, 5m, 2h or 1d"),
        (&["trace", "--duration", "-5s"], "'-5s' is not a duration"),
        (&["trace", "--duration", "nan"], "'nan' is not a duration"),
        (&["trace", "--duration"], "--duration"),
        (&["trace", "--max-size", "nonsense"], "'nonsense' is not a size; write 500M or 10G"),
        (&["trace", "--max-size", "-1"], "'-1' is not a size"),
        (&["trace", "--pid", ""], "--pid"),
        (&["trace", "--durration", "5s"], "a similar argument exists: '--duration'"),
        (&["trace", "--pid", "99999999999"], "99999999999"),
        (&["trace", "--pid"], "--pid"),
        (&["trace", "--stacks", "maybe"], "maybe"),
        (&["trace", "--attach", "glue"], "glue"),
        (&["trace", "--prometheus", "9464"], "'9464' is no address to listen on; write 127.0.0.1:9464"),
        (&["trace", "--otlp", "collector:4317"], "no address of an OTLP server; write http://HOST:4317"),
        (&["trace", "--otlp", "https://me:secret@c:4318"], "OTEL_EXPORTER_OTLP_HEADERS"),
        (&["trace", "--pid", "1", "--", "true"], "--pid"),
        (&["trace", "--cgroup", "/sys/fs/cgroup", "--", "true"], "--cgroup"),
        (
            &["trace", "--probes", "nosuch"],
            "there is no probe 'nosuch'; there are process, inflight, sched, cpu, mem, irq",
        ),
        (&["trace", "--probes", "cuda,,sched"], "there is no probe ''"),
        (&["query", "--limit", "-1"], "invalid value '-1' for '--limit <N>'"),
        (&["query", "--limit", "many"], "many"),
        (&["query", "--format", "xml"], "xml"),
        (&["query", "--since", "yesterday"], "'yesterday' is not a duration"),
        (&["query", "--pid", "-1"], "'-1' is no process; give its number or its name"),
        (&["trace", "--max-size", "1"], "'1' is less than a trace takes; give at least 4.00 MiB"),
        (&["explain", "--from", "25:00"], "'25:00' is no time; write 03:00 (UTC) or 2026-11-15T03:00:00Z"),
        (&["dashboard", "--port", "70000"], "70000"),
        (&["dashboard", "--port", "80", "--listen", "127.0.0.1:80"], "--listen"),
        (&["query", "--json", "--format", "csv"], "--json"),
        (&["query", "a.db", "SELECT 1", "SELECT 2"], "SELECT 2"),
        (&["query", "a.db", "SELECT 1", "--op", "x"], "--op, --pid and --since are for queries without SQL"),
        (&["demo", "nosuch"], "there is no scenario 'nosuch'; there are cpu-hog"),
        (&["demo", "cpu-hog", "surplus"], "surplus"),
        (&["completions", "tcsh"], "tcsh"),
        (&["completions"], "required"),
    ] {
        misused(words, message);
    }
    let none = gpuwhy().output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("Usage: gpuwhy <COMMAND>"));
}

#[test]
fn targets_that_do_not_exist_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.db");
    let trace = |words: &[&str]| {
        let mut command = gpuwhy();
        command.args(["trace", "--duration", "1s", "--out"]).arg(&file).args(words);
        command
    };
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let pid = ended.id().to_string();
    refused(&mut trace(&["--pid", &pid]), 1, &[&format!("there is no process {pid}; `ps` lists")]);
    // Its own command line has the name, and does not count.
    refused(&mut trace(&["--pid", "no-such.py"]), 1, &["no process named 'no-such.py' runs; `ps -e` lists"]);
    refused(
        &mut trace(&["--cgroup", "/no/such"]),
        1,
        &["/no/such is not a cgroup folder", "name a folder below"],
    );
    let no_cgroup = folder.path().join("plain");
    fs::create_dir(&no_cgroup).unwrap();
    refused(&mut trace(&["--cgroup", no_cgroup.to_str().unwrap()]), 1, &["plain is not a cgroup folder"]);
    assert!(!file.exists());
    if !can_trace("targets_that_do_not_exist_are_named") {
        return;
    }
    refused(
        &mut trace(&["--", "/no/such/command"]),
        1,
        &["'/no/such/command' cannot be started", "can be run"],
    );
    refused(&mut trace(&["--", folder.path().to_str().unwrap()]), 1, &["cannot be started"]);
}

#[test]
fn help_has_examples_everywhere() {
    let all = done(gpuwhy().arg("--help").output().unwrap());
    let list = all.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    // What is said of a long one goes on below it.
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let commands: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    for known in ["top", "annotate", "export", "report", "merge", "mcp", "dashboard", "man"] {
        assert!(commands.contains(&known), "{known}: {commands:?}");
    }
    // They say all there is.
    let commands = commands.into_iter().filter(|command| !matches!(*command, "version" | "help"));
    for command in std::iter::once("").chain(commands) {
        let words = [command, "--help"].into_iter().filter(|word| !word.is_empty());
        let text = done(gpuwhy().args(words).output().unwrap());
        let first = text.split_once("Example").and_then(|(_, rest)| rest.split_once(":\n  "));
        let first = first.unwrap_or_else(|| panic!("{command} has no examples: {text}")).1;
        assert!(text.contains("Usage: gpuwhy") && first.starts_with("gpuwhy "), "{command}: {text}");
        assert!(first.starts_with(&format!("gpuwhy {command}")), "{command}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 130), "{command}: {text}");
    }
}

#[test]
fn completions_and_version_are_for_everybody() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = done(gpuwhy().args(["completions", shell]).output().unwrap());
        assert!(text.contains("gpuwhy") && text.contains("keep-all") && text.contains("demo"), "{shell}");
    }
    let version = done(gpuwhy().arg("version").output().unwrap());
    assert_eq!(version, format!("gpuwhy {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(done(gpuwhy().arg("--version").output().unwrap()), version);
}

#[test]
fn man_pages_are_made_of_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let message = done(gpuwhy().arg("man").arg(&pages).output().unwrap());
    let made = fs::read_dir(&pages).unwrap().count();
    assert!(message.starts_with(&format!("{made} pages in ")) && made >= 14, "{message}");
    let page = fs::read_to_string(pages.join("gpuwhy-explain.1")).unwrap();
    for words in [".TH gpuwhy-explain 1", "\\-\\-min\\-severity", "Examples:"] {
        assert!(page.contains(words), "{words} is not in\n{page}");
    }
    // What people are not to call has no page.
    assert!(!pages.join("gpuwhy-sql-worker.1").exists());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(gpuwhy().arg("man").arg(&file), 1, &["cannot be written"]);
}

#[test]
fn a_demo_leaves_nothing_behind_unless_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |words: &[&str]| {
        done(
            gpuwhy()
                .env("TMPDIR", folder.path())
                .args(["demo", "lock", "--replay"])
                .args(words)
                .output()
                .unwrap(),
        )
    };
    let text = demo(&[]);
    assert!(text.contains("gpuwhy demo lock --out lock.db"), "{text}");
    let json: Value = serde_json::from_str(&demo(&["--json"])).unwrap();
    assert!(json["file"].is_null(), "{}", json["file"]);
    demo_tour(folder.path());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn demo_tour(folder: &Path) {
    let text = done(gpuwhy().env("TMPDIR", folder).args(["demo", "tour", "--replay"]).output().unwrap());
    assert!(
        text.contains("gpuwhy demo tour --out tour.db") && text.contains("gpuwhy query tour.db "),
        "{text}"
    );
}

#[test]
fn the_replay_can_be_asked_for_and_says_so() {
    let trace = Trace::new();
    let text =
        done(gpuwhy().args(["demo", "cpu-hog", "--replay", "--out"]).arg(trace.file()).output().unwrap());
    assert!(text.contains("REPLAYED from a recording") && text.contains("cpu.preempted"), "{text}");
    assert!(!text.contains("Traced live"), "{text}");
    let query = format!("gpuwhy query {} ", trace.file().display());
    assert!(text.contains(&query), "{text}");
    assert!(trace.count_of("cuLaunchKernel") > 1000);
    assert_eq!(text.matches("A training loop").count(), 1, "{text}");
    let json =
        done(gpuwhy().args(["demo", "--replay", "--json", "--out"]).arg(trace.file()).output().unwrap());
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&document["live"], &document["scenario"]), (&false.into(), &"cpu-hog".into()));
    let list = done(gpuwhy().args(["demo", "--list"]).output().unwrap());
    assert!(list.starts_with("cpu-hog "), "{list}");
}

#[test]
fn json_has_rows_truncated_and_coverage() {
    let trace = recorded_trace();
    let ask = |words: &[&str]| -> Value {
        let text = done(gpuwhy().arg("query").arg(trace.file()).args(words).output().unwrap());
        serde_json::from_str(&text).unwrap()
    };
    let document =
        ask(&["SELECT op, count, p50_us, NULL AS none, x'00ff' AS raw FROM op_summary", "--format", "json"]);
    let keys: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys.iter().collect::<std::collections::BTreeSet<_>>(),
        ["coverage", "rows", "truncated"].iter().collect()
    );
    assert_eq!(document["truncated"], false);
    let row = &document["rows"][0];
    assert!(row["op"].is_string() && row["count"].is_u64() && row["p50_us"].is_f64(), "{row}");
    assert_eq!((&row["none"], &row["raw"]), (&Value::Null, &"0x00ff".into()));
    let coverage = &document["coverage"];
    assert!(coverage["lost"].is_u64() && coverage["sampled"].is_u64(), "{coverage}");
    assert!(coverage["degraded"].is_array() && coverage["unattached"].is_array(), "{coverage}");
    assert_eq!(
        coverage["sampled"].as_i64().unwrap(),
        trace.number("SELECT sum(count) - sum(kept) FROM call_stats")
    );
    let cut = ask(&["--json", "--limit", "5"]);
    assert_eq!((cut["rows"].as_array().unwrap().len(), &cut["truncated"]), (5, &true.into()));
    // The newest, in order of time.
    let newest = trace.number("SELECT max(timestamp_ns) FROM events");
    let times: Vec<i64> =
        cut["rows"].as_array().unwrap().iter().map(|row| row["timestamp_ns"].as_i64().unwrap()).collect();
    assert!(times.is_sorted() && times[4] == newest, "{times:?}");
    let none = ask(&["SELECT 1 WHERE 0", "--json"]);
    assert_eq!((&none["rows"], &none["truncated"]), (&Value::Array(Vec::new()), &false.into()));
}

#[test]
fn a_cut_answer_says_so() {
    let trace = recorded_trace();
    let ask = |limit: &str| {
        gpuwhy()
            .arg("query")
            .arg(trace.file())
            .args(["SELECT pid FROM calls", "--format", "csv", "--limit", limit])
            .output()
            .unwrap()
    };
    let cut = ask("7");
    assert_eq!(
        String::from_utf8_lossy(&cut.stderr),
        "gpuwhy: there are more than these 7 rows; --limit N gives more\n"
    );
    assert_eq!(done(cut).lines().count(), 8);
    let all = trace.number("SELECT count(*) FROM calls");
    let whole = ask(&all.to_string());
    assert_eq!(String::from_utf8_lossy(&whole.stderr), "");
    assert_eq!(done(whole).lines().count() as i64, all + 1);
    let none = ask("0");
    assert!(String::from_utf8_lossy(&none.stderr).contains("there are more"));
    assert_eq!(done(none), "pid\r\n");
}

#[test]
fn a_file_alone_is_explained() {
    let trace = recorded_trace();
    let page = |command: &mut Command| done(command.arg(trace.file()).arg("--verbose").output().unwrap());
    assert_eq!(page(&mut gpuwhy()), page(gpuwhy().arg("explain")));
    refused(gpuwhy().arg("no-such.db"), 2, &["no-such.db"]);
}

#[test]
fn filters_without_sql_select_what_sql_selects() {
    let trace = recorded_trace();
    let pid = trace.number("SELECT pid FROM calls GROUP BY pid ORDER BY count(*) DESC LIMIT 1").to_string();
    let rows = |words: &[&str]| {
        let mut command = gpuwhy();
        command.arg("query").arg(trace.file()).args(words).args(["--limit", "1000000", "--format", "csv"]);
        done(command.output().unwrap()).lines().count() as i64 - 1
    };
    assert_eq!(rows(&[]), trace.number("SELECT count(*) FROM events"));
    assert_eq!(rows(&["op_summary"]), trace.number("SELECT count(*) FROM op_summary"));
    assert_eq!(
        rows(&["--op", "cuLaunchKernel"]),
        trace.number("SELECT count(*) FROM events WHERE op = 'cuLaunchKernel'")
    );
    assert_eq!(
        rows(&["--pid", &pid]),
        trace.number(&format!("SELECT count(*) FROM events WHERE pid = {pid}"))
    );
    // Back from the newest event or window of the file, however long ago that was.
    let newest = trace.number(
        "SELECT max((SELECT max(timestamp_ns) FROM events), (SELECT max(window_start_ns) FROM call_stats))",
    );
    for (since, ns) in [("1s", 1_000_000_000_i64), ("2500ms", 2_500_000_000), ("1d", 86_400_000_000_000)] {
        let expected =
            trace.number(&format!("SELECT count(*) FROM events WHERE timestamp_ns >= {newest} - {ns}"));
        assert!(expected > 0);
        assert_eq!(rows(&["--since", since]), expected, "{since}");
    }
    assert!(rows(&["--since", "1s"]) < rows(&["--since", "1d"]));
    assert_eq!(rows(&["--since", "1d"]), rows(&[]));
}

#[test]
fn a_selection_without_data_has_its_own_status() {
    let trace = recorded_trace();
    let before = Frozen::of(trace.folder.path());
    let ask = |words: &[&str], message: &str| {
        let message = refused(gpuwhy().arg("query").arg(trace.file()).args(words), 3, &[message]);
        assert!(message.contains("it has calls of cuLaunchKernel"), "what there is instead: {message}");
    };
    ask(&["--op", "nosuch"], "the trace has no events of operation nosuch; ");
    ask(&["--pid", "1"], "the trace has no events of process 1; ");
    ask(
        &["--op", "nosuch", "--pid", "1", "--since", "1m", "--json"],
        "of operation nosuch of process 1 in the last 60s",
    );
    // In the program's table, but never called here: it is not offered.
    let message = refused(
        gpuwhy().arg("query").arg(trace.file()).args(["--op", "cuGraphLaunch"]),
        3,
        &["cuGraphLaunch"],
    );
    assert_eq!(message.matches("cuGraphLaunch").count(), 1, "{message}");
    before.assert_same(trace.folder.path(), "asking");
}

/// A trace with so many sessions.
fn trace_of_sessions(sessions: usize) -> Trace {
    let trace = recorded_trace();
    let db = rusqlite::Connection::open(trace.file()).unwrap();
    for _ in 1..sessions {
        db.execute("INSERT INTO sessions (start_ns) VALUES (1)", []).unwrap();
    }
    trace
}

#[test]
fn the_file_is_a_word_or_a_flag_or_in_the_environment() {
    let [word, flag, variable] = [1, 2, 3].map(trace_of_sessions);
    let sessions = |command: &mut Command| {
        done(command.args(["SELECT count(*) AS n FROM sessions", "--format", "csv"]).output().unwrap())
    };
    let mut command = gpuwhy();
    command.env("GPUWHY_DB", variable.file()).arg("query");
    assert_eq!(sessions(&mut command), "n\r\n3\r\n");
    let mut command = gpuwhy();
    command.env("GPUWHY_DB", variable.file()).args(["query", "--db"]).arg(flag.file());
    assert_eq!(sessions(&mut command), "n\r\n2\r\n");
    let mut command = gpuwhy();
    command.env("GPUWHY_DB", variable.file()).arg("query").arg(word.file());
    assert_eq!(sessions(&mut command), "n\r\n1\r\n");
    // Without SQL, and from the folder of the file.
    let mut command = gpuwhy();
    command.current_dir(word.folder.path()).args(["query", "trace.db", "--limit", "1", "--format", "csv"]);
    assert_eq!(done(command.output().unwrap()).lines().count(), 2);
    let mut command = gpuwhy();
    command.env("GPUWHY_DB", "/no/such/trace.db").args(["query", "SELECT 1"]);
    refused(&mut command, 1, &["there is no trace at /no/such/trace.db"]);
}

#[test]
fn people_have_their_own_default_file() {
    let Some(unprivileged) = Unprivileged::new("people_have_their_own_default_file") else { return };
    let data = unprivileged.folder.path().join("data/gpuwhy");
    let home = unprivileged.folder.path().join("home/.local/share/gpuwhy");
    for (folder, rows) in [(&data, "1"), (&home, "2")] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("trace.db"), recorded()).unwrap();
        open_to_all(&folder.join("trace.db"), 0o644);
        let mut command = unprivileged.gpuwhy();
        command
            .env("HOME", unprivileged.folder.path().join("home"))
            .args(["query", "--limit", rows, "--format", "csv"]);
        if *folder == data {
            command.env("XDG_DATA_HOME", unprivileged.folder.path().join("data"));
        }
        assert_eq!(
            done(command.output().unwrap()).lines().count().to_string(),
            (rows.parse::<u32>().unwrap() + 1).to_string()
        );
    }
    fs::remove_dir_all(unprivileged.folder.path().join("home/.local")).unwrap();
    let mut command = unprivileged.gpuwhy();
    command.env("HOME", unprivileged.folder.path().join("home")).arg("query");
    refused(&mut command, 1, &["there is no trace at", "home/.local/share/gpuwhy/trace.db"]);
    // No home at all.
    refused(unprivileged.gpuwhy().arg("query"), 1, &["there is no trace at", "gpuwhy/trace.db"]);
}

/// An old one of theirs beside what root has traced since: the answer says whose it is.
#[test]
fn people_are_told_of_what_root_has_traced_since() {
    const TEST: &str = "people_are_told_of_what_root_has_traced_since";
    let Some(unprivileged) = Unprivileged::new(TEST) else { return };
    let home = unprivileged.folder.path().join("home");
    let own = home.join(".local/share/gpuwhy/trace.db");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, recorded()).unwrap();
    open_to_all(&own, 0o644);
    let soon = SystemTime::now() + Duration::from_secs(3600);
    for (has_traced, time) in [(true, SystemTime::UNIX_EPOCH), (true, soon), (false, SystemTime::UNIX_EPOCH)]
    {
        fs::File::options().write(true).open(&own).unwrap().set_modified(time).unwrap();
        for words in [&["explain"][..], &["report", "-o", "-"], &["mcp"]] {
            let Some(mut command) = unprivileged.beside_root(TEST, has_traced) else { return };
            let output = command.env("HOME", &home).args(words).stdin(Stdio::null()).output().unwrap();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{message}");
            let hint = format!("root has traced since: `sudo gpuwhy {}`", words[0]);
            assert_eq!(message.contains(&hint), has_traced && time != soon, "{message}");
        }
    }
    // None of their own: what root has traced is named where there is any.
    fs::remove_file(&own).unwrap();
    for has_traced in [true, false] {
        let Some(mut command) = unprivileged.beside_root(TEST, has_traced) else { return };
        let message = refused(command.env("HOME", &home).arg("query"), 1, &["there is no trace at"]);
        assert_eq!(message.contains("what root has traced: sudo gpuwhy explain"), has_traced, "{message}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let trace = recorded_trace();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    for format in ["table", "csv", "json"] {
        let mut child = gpuwhy()
            .arg("query")
            .arg(trace.file())
            .args([many, "--limit", "100000", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        // Far more than a pipe holds: the writer is still at it when the reader leaves.
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!first.is_empty());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert_eq!(output.status.code(), Some(0), "{format}");
    }
}

/// Every command writes to a pipe that nobody reads any more.
#[test]
fn no_command_minds_a_closed_pipe() {
    let trace = Trace::new();
    let file = trace.file();
    let file = file.to_str().unwrap();
    for words in [
        &["--help"][..],
        &["version"],
        &["completions", "bash"],
        &["check"],
        &["check", "--json"],
        &["docs", "schema"],
        &["docs", "probes"],
        &["docs", "formats"],
        &["demo", "--list"],
        &["demo", "--replay", "--out", file],
        &["demo", "--replay", "--json", "--out", file],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = gpuwhy()
            .args(words)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert_eq!(output.status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_said() {
    let trace = recorded_trace();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = gpuwhy();
    command.arg("query").arg(trace.file()).stdout(full).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.starts_with("gpuwhy: the answer could not be written") && message.lines().count() == 1,
        "{message}"
    );
}

/// On a terminal, which `script` lends: colour unless NO_COLOR is set; never elsewhere.
#[test]
fn colour_is_for_terminals_that_want_it() {
    const ESCAPE: u8 = 0x1b;
    let program = env!("CARGO_BIN_EXE_gpuwhy");
    let plain = Command::new(program).arg("check").env_remove("NO_COLOR").output().unwrap();
    assert!(!plain.stdout.is_empty() && !plain.stdout.contains(&ESCAPE));
    let on_terminal = |no_color: bool| {
        let mut command = Command::new("script");
        command
            .args(["-qec", &format!("'{program}' check"), "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        command.stdin(Stdio::null()).output()
    };
    let Ok(coloured) = on_terminal(false) else {
        return skip("colour_is_for_terminals_that_want_it", "there is no `script` to lend a terminal");
    };
    assert!(coloured.stdout.contains(&ESCAPE), "{}", String::from_utf8_lossy(&coloured.stdout));
    let text = on_terminal(true).unwrap().stdout;
    assert!(!text.is_empty() && !text.contains(&ESCAPE), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn the_generated_docs_are_those_of_this_program() {
    for page in ["schema", "probes", "rules", "causes", "formats", "metrics", "api"] {
        let made = done(gpuwhy().args(["docs", page]).output().unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{page}.md"));
        assert_eq!(fs::read_to_string(path).unwrap(), made, "run `make docs`");
    }
}

#[test]
fn the_selftest_sees_every_call_of_every_library() {
    if !can_trace("the_selftest_sees_every_call_of_every_library") {
        return;
    }
    let _turn = alone();
    let message = done(gpuwhy().args(["check", "--selftest", "--json"]).output().unwrap());
    let answer: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(answer["ok"], true, "{message}");
    let operations = answer["selftest"]["operations"].as_array().unwrap();
    assert!(operations.len() > 200, "{}", operations.len());
    for prefix in ["cuda", "cuGraph", "hip", "nccl", "ibv_", "ioctl "] {
        let seen = operations.iter().any(|op| op["op"].as_str().unwrap().starts_with(prefix));
        assert!(seen, "no operation of {prefix}");
    }
}
