//! SQL of users and hostile data: nothing is written, nothing escapes, nothing runs for ever.

use crate::refusal::{Frozen, changed_by, recorded_trace, refused};
use crate::support::{Trace, can_trace, done, gpuwhy, sim, simwork, skip};
use gpuwhy_query::{SqlRequest, sql};
use gpuwhy_store::Reader;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the statement answers, as the given format has it.
fn answer(trace: &Trace, sql: &str, format: &str) -> String {
    done(gpuwhy().arg("query").arg(trace.file()).args([sql, "--format", format]).output().unwrap())
}

#[test]
fn nothing_is_written_and_nothing_escapes() {
    let trace = recorded_trace();
    let before = Frozen::of(trace.folder.path());
    let outside = trace.folder.path().join("outside.db");
    let outside = outside.display();
    for statement in [
        "INSERT INTO ops VALUES (999, 'x', 'cuda', 'other', 0)",
        "REPLACE INTO ops VALUES (1, 'x', 'cuda', 'other', 0)",
        "UPDATE calls SET pid = 1",
        "DELETE FROM calls",
        "DELETE FROM calls RETURNING pid",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON ops BEGIN SELECT 1; END",
        "DROP TABLE calls",
        "DROP VIEW events",
        "ALTER TABLE calls RENAME TO c",
        "WITH x AS (SELECT 999) INSERT INTO ops SELECT *, 'x', 'cuda', 'other', 0 FROM x",
        "with x(a) as (select 1) delete from calls where pid in (select a from x)",
        "/* harmless */ DELETE FROM calls",
        "PRAGMA journal_mode = WAL",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = ON",
        "PRAGMA query_only = OFF",
        "SELECT * FROM pragma_journal_mode",
        &format!("ATTACH '{outside}' AS other"),
        &format!("ATTACH 'file:{outside}?mode=rwc' AS other"),
        &format!("VACUUM INTO '{outside}'"),
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "SELECT 1; DELETE FROM calls",
        "EXPLAIN DELETE FROM calls",
    ] {
        refused(gpuwhy().arg("query").arg(trace.file()).arg(statement), 1, &["only SELECT is allowed"]);
        before.assert_same(trace.folder.path(), statement);
    }
    for (statement, words) in [
        ("SELECT load_extension('/tmp/x.so')", "the SQL function load_extension is not allowed here"),
        ("SELECT load_extension('/tmp/x.so', 'main') FROM calls", "load_extension"),
        ("SELECT readfile('/etc/passwd')", "no such function: readfile"),
        (&format!("SELECT writefile('{outside}', 'x')"), "no such function: writefile"),
        ("SELECT * FROM fsdir('/')", "no such table: fsdir"),
        ("SELECT RAISE(ABORT, 'x')", "RAISE"),
        ("SELECT * FROM pragma_journal_mode('wal')", "that SQL is wrong"),
        ("SELECT * FROM sqlite_dbpage", "no such table"),
    ] {
        refused(gpuwhy().arg("query").arg(trace.file()).arg(statement), 1, &[words]);
        before.assert_same(trace.folder.path(), statement);
    }
}

#[test]
fn statements_that_only_look_are_answered() {
    let trace = recorded_trace();
    let before = Frozen::of(trace.folder.path());
    for statement in [
        "SELECT * FROM pragma_table_info('calls')",
        "EXPLAIN QUERY PLAN SELECT * FROM events",
        "\n-- the slowest first\nSELECT op FROM op_summary",
        "/* a comment */ SELECT 1;",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
        "VALUES (1), (2)",
    ] {
        assert!(answer(&trace, statement, "csv").lines().count() > 1, "{statement}");
        before.assert_same(trace.folder.path(), statement);
    }
}

#[test]
fn wrong_statements_are_explained() {
    let trace = recorded_trace();
    let deep = format!("SELECT 1{}", " + 1".repeat(2_000));
    for (statement, words) in [
        ("", "there is no statement in it; write a SELECT"),
        ("  ", "there is no statement in it; write a SELECT"),
        (";", "there is no statement in it; write a SELECT"),
        ("/* only a comment */", "there is no statement in it; write a SELECT"),
        ("SELECT 1; SELECT 2", "give them one at a time"),
        ("SELEC 1", "near \"SELEC\": syntax error"),
        ("SELECT", "incomplete input"),
        ("SELECT 'a", "unrecognized token"),
        (
            "SELECT * FROM cuda_event",
            "no such table: cuda_event; `SELECT * FROM schema_doc` lists what there is",
        ),
        ("SELECT durations FROM cuda_events", "no such column: durations; `SELECT * FROM schema_doc` lists"),
        ("SELECT ?", "place holder"),
        ("SELECT zeroblob(2000000000)", "more than 16 MiB"),
        ("SELECT hex(zeroblob(9000000))", "more than 16 MiB"),
        ("SELECT printf('%2000000000d', 1)", "more than 16 MiB"),
        ("SELECT group_concat(printf('%1000000d', pid)) FROM calls", "more than 16 MiB"),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
        (&deep, "that SQL is wrong"),
        ("SELECT 'a\u{1b}[31m\n' FROM", "that SQL is wrong"),
        ("SELECT \u{1b}[31m", "that SQL is wrong"),
    ] {
        refused(gpuwhy().arg("query").arg(trace.file()).arg(statement), 1, &[words]);
    }
}

#[test]
fn a_statement_that_never_ends_is_stopped() {
    let trace = recorded_trace();
    let reader = Reader::open(&trace.file()).unwrap();
    let ask = |statement: &str| {
        let began = Instant::now();
        let message =
            sql(&reader, &SqlRequest { statement: statement.into(), limit: None, seconds: Some(1) });
        assert!(began.elapsed() < Duration::from_secs(5), "{statement} took {:?}", began.elapsed());
        message
    };
    for statement in [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM calls a, calls b, calls c",
    ] {
        let message = ask(statement).unwrap_err();
        assert_eq!(
            message.to_string(),
            "that SQL ran longer than 1s and was stopped; narrow it by time or operation"
        );
        assert_eq!(message.exit_status(), 1);
    }
    let rows =
        ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n").unwrap();
    assert!(rows.truncated);
}

/// Strings as a hostile process may have them.
const HOSTILE: &[&str] = &[
    "\u{1b}[31mred\u{1b}[0m",
    "\u{1b}]0;title\u{7}",
    "<script>alert('x')</script>",
    "a\nb\r\nc",
    "\"quoted\", and comma",
    "'; DROP TABLE calls; --",
    "tab\there",
    "\u{9b}31m",
    "=1+1",
    " padded ",
    "",
    "\u{7f}\u{0}nul",
    "{\"json\": [1]}",
    "\u{202e}tfel",
];

fn hostile_trace() -> Trace {
    let trace = recorded_trace();
    let db = Connection::open(trace.file()).unwrap();
    for (id, text) in (1000_i64..).zip(HOSTILE) {
        db.execute(
            "INSERT INTO ops (op_id, op, layer, family, waits_for_gpu) VALUES (?, ?, 'cuda', 'other', 0)",
            rusqlite::params![id, text],
        )
        .unwrap();
        db.execute(
            "INSERT INTO calls (timestamp_ns, op_id, pid, tid, kept, session_id) VALUES (?, ?, 4242, 4242, 2, 1)",
            [id, id],
        )
        .unwrap();
    }
    trace
}

const HOSTILE_SQL: &str = "SELECT op_id, op FROM ops WHERE op_id >= 1000 ORDER BY op_id";

/// As RFC 4180 says.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(!quoted && row.is_empty() && field.is_empty(), "the last line is whole");
    rows
}

#[test]
fn hostile_text_is_harmless_in_tables_and_exact_for_programs() {
    let trace = hostile_trace();
    let table = answer(&trace, HOSTILE_SQL, "table");
    assert_eq!(table.lines().count(), HOSTILE.len() + 1, "{table:?}");
    assert!(!table.replace('\n', "").contains(char::is_control), "{table:?}");

    let rows = parse_csv(&answer(&trace, HOSTILE_SQL, "csv"));
    let texts: Vec<&str> = rows.iter().skip(1).map(|row| row[1].as_str()).collect();
    assert_eq!((rows[0].join(","), texts), ("op_id,op".into(), HOSTILE.to_vec()));

    let document: Value = serde_json::from_str(&answer(&trace, HOSTILE_SQL, "json")).unwrap();
    let texts: Vec<&str> =
        document["rows"].as_array().unwrap().iter().map(|row| row["op"].as_str().unwrap()).collect();
    assert_eq!(texts, HOSTILE);
}

/// The same names as filters, found and not found.
#[test]
fn hostile_names_are_values_and_never_sql() {
    let trace = hostile_trace();
    for text in HOSTILE.iter().filter(|text| !text.contains('\0')) {
        let mut command = gpuwhy();
        command.arg("query").arg(trace.file()).arg(format!("--op={text}")).args(["--format", "json"]);
        let document: Value = serde_json::from_str(&done(command.output().unwrap())).unwrap();
        assert_eq!(document["rows"].as_array().unwrap().len(), 1, "{text:?}");
        assert_eq!(
            (&document["rows"][0]["op"], &document["rows"][0]["pid"]),
            (&(*text).into(), &4242.into())
        );
        refused(
            gpuwhy().arg("query").arg(trace.file()).arg(format!("--op=no{text}")),
            3,
            &["the trace has no events of"],
        );
    }
}

/// A real process under a name with escapes, quotes and a newline in it, traced.
#[test]
fn a_process_with_a_hostile_name_is_traced_and_shown_harmlessly() {
    const TEST: &str = "a_process_with_a_hostile_name_is_traced_and_shown_harmlessly";
    if !can_trace(TEST) {
        return;
    }
    let trace = Trace::new();
    // The kernel keeps 15 bytes; the last is no UTF-8.
    let name = OsStr::from_bytes(b"\x1b[31m\"<b>\n',\xff");
    let program = trace.folder.path().join("sim").join(name);
    let name = name.to_string_lossy().into_owned();
    // Beside its libraries; other processes copy, as no descriptor of this one may stay open for writing.
    let copy =
        |from: &Path, to: &Path| Command::new("cp").arg("-r").args([from, to]).status().unwrap().success();
    assert!(copy(sim(), &trace.folder.path().join("sim")) && copy(&simwork(), &program));
    let mut command = gpuwhy();
    command.args(["trace", "--out"]).arg(trace.file()).arg("--").arg(program).args([
        "launch",
        "--launches",
        "100",
    ]);
    let summary = done(command.output().unwrap());
    assert!(!summary.contains('\u{1b}'), "{summary:?}");

    let sql = "SELECT pid, comm, cmdline FROM processes WHERE comm LIKE '%<b>%'";
    let table = answer(&trace, sql, "table");
    assert_eq!(table.lines().count(), 2, "{table:?}");
    assert!(!table.replace('\n', "").contains(char::is_control), "{table:?}");
    assert_eq!(parse_csv(&answer(&trace, sql, "csv"))[1][1], name);
    let document: Value = serde_json::from_str(&answer(&trace, sql, "json")).unwrap();
    assert_eq!(document["rows"][0]["comm"], name);
}

#[test]
fn schema_doc_covers_every_column_there_is() {
    let trace = recorded_trace();
    let pairs = |sql: &str| -> BTreeSet<(String, String)> {
        let db = trace.db();
        let mut statement = db.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let real = pairs(
        "SELECT m.name, i.name FROM sqlite_master m, pragma_table_info(m.name) i WHERE m.type IN ('table', 'view')",
    );
    let documented = pairs("SELECT table_name, column_name FROM schema_doc WHERE trim(about) <> ''");
    assert!(real.len() > 200, "{}", real.len());
    assert_eq!(real, documented);
}

#[test]
fn python_opens_the_file_as_it_is() {
    let script = "\
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
assert db.execute('PRAGMA integrity_check').fetchone()[0] == 'ok'
assert db.execute('PRAGMA user_version').fetchone()[0] == int(sys.argv[2])
for op, count, p50, p99, worst in db.execute('SELECT op, count, p50_us, p99_us, max_us FROM op_summary'):
    assert count > 0 and 0 < p50 <= p99 <= worst, (op, count, p50, p99, worst)
    print(op, count)
";
    let trace = recorded_trace();
    let ready = Command::new("python3")
        .args(["-c", "import sqlite3, sys; sys.exit(sqlite3.sqlite_version_info < (3, 38))"])
        .status();
    if !ready.is_ok_and(|status| status.success()) {
        return skip("python_opens_the_file_as_it_is", "there is no python3 with SQLite 3.38 or newer");
    }
    let version = gpuwhy_store::schema::SCHEMA_VERSION.to_string();
    let mut python = Command::new("python3");
    let message = done(python.args(["-c", script]).arg(trace.file()).arg(version).output().unwrap());
    let launches = trace.number("SELECT sum(count) FROM call_stats WHERE op = 'cuLaunchKernel'");
    assert!(launches > 0 && message.contains(&format!("cuLaunchKernel {launches}\n")), "{message}");
}

#[test]
fn the_sqlite_shell_opens_the_file_as_it_is() {
    let trace = recorded_trace();
    let Ok(version) = Command::new("sqlite3").arg("-version").output() else {
        return skip("the_sqlite_shell_opens_the_file_as_it_is", "there is no sqlite3 shell");
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let minor: u32 = version.split('.').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
    if !version.starts_with("3.") || minor < 38 {
        return skip(
            "the_sqlite_shell_opens_the_file_as_it_is",
            &format!("its SQLite is {version}, not 3.38 or newer"),
        );
    }
    let shell = Command::new("sqlite3")
        .args(["-readonly", "-csv"])
        .arg(trace.file())
        .arg("SELECT op, count FROM op_summary")
        .output();
    assert_eq!(
        done(shell.unwrap()).replace('\r', ""),
        answer(&trace, "SELECT op, count FROM op_summary", "csv")
            .replace('\r', "")
            .trim_start_matches("op,count\n")
    );
}

/// A trace made by hand to have no calls is still a trace.
#[test]
fn a_trace_without_calls_answers_with_nothing() {
    let trace = changed_by(
        "DELETE FROM calls; DELETE FROM call_stats; DELETE FROM blame; DELETE FROM process_events; \
         DELETE FROM coldstart_events; DELETE FROM gpu_errors; DELETE FROM nccl_events; DELETE FROM sched_events; \
         DELETE FROM mem_events; DELETE FROM io_events; DELETE FROM net_events; DELETE FROM tcp_events",
    );
    assert_eq!(answer(&trace, "SELECT op FROM op_summary", "csv"), "op\r\n");
    refused(
        gpuwhy().arg("query").arg(trace.file()),
        3,
        &["the trace has no events; no traced process gave the GPU work"],
    );
    refused(
        gpuwhy().arg("query").arg(trace.file()).args(["--since", "1h"]),
        3,
        &["no traced process gave the GPU work"],
    );
}
