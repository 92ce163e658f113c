//! The dashboard in real headless Chromium; `browser/` has the scripts that drive it.

use crate::assistant::{TOKEN, certificate, served};
use crate::support::{PATIENCE, Running, Trace, can_trace, done, gpuwhy, signal, simwork, skip, unavailable};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "browser/found.rs"]
mod found;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/browser/main.py");

/// Python with Playwright and axe, and the system's Chromium; None, and a skip, where one cannot be had.
pub(crate) fn browser(test: &str) -> Option<(PathBuf, PathBuf)> {
    match found::browser() {
        Ok(found) => Some(found.clone()),
        Err(reason) => {
            unavailable(test, reason);
            None
        }
    }
}

/// Runs a scenario of the scripts on a dashboard that is served at this address.
pub(crate) fn driven((python, chromium): &(PathBuf, PathBuf), scenario: &str, address: &str) {
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("GPUWHY_TOKEN", TOKEN);
    done(command.arg(SCRIPT).arg(chromium).args([scenario, address]).output().unwrap());
}

/// A recording of a real GPU.
fn recorded(name: &str) -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", name, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    trace
}

fn dashboard(file: &Path) -> Command {
    let mut command = gpuwhy();
    command.arg("dashboard").arg(file).args(["--listen", "127.0.0.1:0"]);
    command
}

#[test]
fn every_view_shows_what_the_api_says_and_everybody_can_use_it() {
    let Some(browser) = browser("every_view_shows_what_the_api_says_and_everybody_can_use_it") else {
        return;
    };
    for (name, scenario) in [("h200-item", "recorded"), ("h200-loader", "findings")] {
        let trace = recorded(name);
        let (_server, address) = served(dashboard(&trace.file()).arg("--open"));
        driven(&browser, scenario, &address);
    }
}

/// A real PyTorch program on an H200, whose loader's worker computes.
#[test]
fn steps_threads_and_other_processes_are_told_apart() {
    let Some(browser) = browser("steps_threads_and_other_processes_are_told_apart") else { return };
    let trace = Trace::new();
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../query/tests/recordings/loader_cpu.db.gz");
    let unpacked = Command::new("gzip").args(["-dc", packed]).output().unwrap();
    assert!(unpacked.status.success());
    std::fs::write(trace.file(), unpacked.stdout).unwrap();
    let (_server, address) = served(dashboard(&trace.file()).arg("--open"));
    driven(&browser, "threads", &address);
}

#[test]
fn the_late_rank_is_named_in_the_matrix() {
    let Some(browser) = browser("the_late_rank_is_named_in_the_matrix") else { return };
    let trace = recorded("h200-item");
    let db = rusqlite::Connection::open(trace.file()).unwrap();
    // Rank 2 comes 5 ms after the others, and rank 3 not to the last one.
    db.execute_batch(
        "WITH RECURSIVE seqs(seq) AS (SELECT 0 UNION ALL SELECT seq + 1 FROM seqs WHERE seq < 29), \
         ranks(rank) AS (SELECT 0 UNION ALL SELECT rank + 1 FROM ranks WHERE rank < 3) \
         INSERT INTO nccl_events (timestamp_ns, duration_ns, op, pid, tid, rank, nranks, comm_id_hash, seq) \
         SELECT (SELECT start_ns FROM sessions) + 1000000000 + seq * 100000000 + iif(rank = 2, 5000000, 0), 1000, 'ALL_REDUCE', \
         100 + rank, 100 + rank, rank, 4, '0xabc', seq FROM seqs, ranks WHERE NOT (rank = 3 AND seq = 29)",
    )
    .unwrap();
    let (_server, address) = served(dashboard(&trace.file()).arg("--open"));
    driven(&browser, "ranks", &address);
}

#[test]
fn a_hostile_trace_is_shown_as_text() {
    let Some(browser) = browser("a_hostile_trace_is_shown_as_text") else { return };
    let trace = recorded("h200-item");
    let db = rusqlite::Connection::open(trace.file()).unwrap();
    let markup = "<script>window.taken=1</script><img src=x onerror=window.taken=1>";
    let turned = "\u{202e}gnp.exe\u{1b}[2J";
    let long = "A".repeat(1 << 20);
    for statement in [
        "UPDATE processes SET comm = ?1, cmdline = ?3, cgroup = ?2, tenant = ?1",
        "UPDATE threads SET comm = ?1 || ?2",
        "UPDATE frames SET function = iif(depth % 2, ?1, ?2), file = iif(depth % 3, ?2, ?1)",
        "UPDATE frames SET function = ?3 WHERE depth = 2 AND stack_id = (SELECT stack_id FROM calls WHERE stack_id IS NOT NULL ORDER BY duration_ns DESC LIMIT 1)",
        "UPDATE ops SET op = ?1 WHERE op = 'cudaStreamSynchronize'",
        "UPDATE call_stats SET op = ?1 WHERE op = 'cudaStreamSynchronize'",
        "UPDATE blame SET op = ?1 WHERE op = 'cudaStreamSynchronize'",
        "UPDATE call_stats SET op = ?3 WHERE op = 'cudaMalloc'",
        "UPDATE blame SET by_comm = ?1 || ?2 WHERE by_comm IS NOT NULL",
        "UPDATE kernels SET name = ?3",
        "UPDATE probes SET reason = ?1 || ?2 WHERE state <> 'attached'",
        "UPDATE sessions SET host = ?1, gpus = json_array(?2)",
        "INSERT INTO annotations (timestamp_ns, duration_ns, event, value) SELECT start_ns + 1000, 1000000000, ?1, ?3 || ?2 FROM sessions",
    ] {
        let words = [markup, turned, &long];
        let mut statement = db.prepare(statement).unwrap();
        let many = statement.parameter_count();
        statement.execute(rusqlite::params_from_iter(&words[..many])).unwrap();
    }
    drop(db);
    let (_server, address) = served(dashboard(&trace.file()).arg("--open"));
    driven(&browser, "hostile", &address);
}

#[test]
fn a_browser_logs_in_with_a_token_over_tls() {
    let test = "a_browser_logs_in_with_a_token_over_tls";
    let Some(browser) = browser(test) else { return };
    let trace = recorded("h200-item");
    let Some((cert, key)) = certificate(trace.folder.path()) else {
        return skip(test, "openssl cannot make a certificate");
    };
    let tokens = trace.folder.path().join("tokens");
    std::fs::write(&tokens, TOKEN).unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = dashboard(&trace.file());
    command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key).arg("--token-file").arg(&tokens);
    let (_server, address) = served(&mut command);
    assert!(address.starts_with("https://"), "{address}");
    driven(&browser, "login", &address);
}

#[test]
fn the_printed_link_logs_in_and_its_token_stays_nowhere() {
    let Some(browser) = browser("the_printed_link_logs_in_and_its_token_stays_nowhere") else { return };
    let trace = recorded("h200-item");
    let (_server, address) = served(&mut dashboard(&trace.file()));
    assert!(address.contains("/#token="), "{address}");
    driven(&browser, "link", &address);
}

#[test]
fn the_page_follows_a_trace_that_is_being_written() {
    let test = "the_page_follows_a_trace_that_is_being_written";
    let Some(browser) = browser(test) else { return };
    if !can_trace(test) {
        return;
    }
    let trace = Trace::new();
    let work = simwork();
    let words = ["--", work.to_str().unwrap(), "train", "--steps", "0", "--seconds", "60"];
    let mut running = Running::start(&trace, &words);
    running.until("sums", |sums| !sums["operations"].as_array().unwrap().is_empty());
    let (_server, address) = served(dashboard(&trace.file()).arg("--open"));
    driven(&browser, "live", &address);
    running.stop();
}

/// A browser that says what it was given, through a pipe.
#[test]
fn browse_opens_the_link_and_shows_its_token_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (fake, pipe) = (folder.path().join("browser"), folder.path().join("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = format!("#!/bin/sh\n{{ echo \"$#\"; echo \"$1\"; cat \"$1\"; }} > {}\n", pipe.display());
    std::fs::write(&fake, words).unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Open for writing, too, so that opening waits for nobody; who reads is a thread, so that this test ends.
    let held = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let (message, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(held).lines().map_while(Result::ok) {
            let _ = message.send(line);
        }
    });
    let trace = recorded("h200-item");
    let (mut server, link) = served(dashboard(&trace.file()).arg("--browse").env("BROWSER", &fake));
    let next = || heard.recv_timeout(PATIENCE).expect("the browser was started");
    assert_eq!(next(), "1", "one argument");
    let page = PathBuf::from(next());
    assert!(!page.to_string_lossy().contains("token="), "every user sees command lines: {}", page.display());
    let text = next();
    assert!(link.contains("/#token=") && text.contains(&format!("url={link}\"")), "{link}: {text}");
    assert_eq!(std::fs::metadata(&page).unwrap().permissions().mode() & 0o077, 0, "others cannot read it");
    signal(server.0.id(), "INT");
    assert!(server.0.wait().unwrap().success());
    assert!(!page.exists(), "it goes with the server");
    // Without one the server serves all the same.
    let missing = folder.path().join("missing");
    let mut command = dashboard(&trace.file());
    command.arg("--browse").env("BROWSER", &missing).stderr(std::process::Stdio::piped());
    let (mut server, _) = served(&mut command);
    let mut message = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut message).unwrap();
    assert!(
        message.contains("no browser was opened") && message.contains("open the link yourself"),
        "{message}"
    );
}
