//! Collective libraries that a program loads late: attached before they are mapped where that can be foreseen or is known
//! from an earlier trace, and where it came too late, what cannot be told is said.

use crate::support::{Gated, Running, Trace, alone, can_trace, done, gpuwhy, signal, sim, skip, wait_until};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const STEPS: i64 = 20;

/// Two ranks in Python, at their gates. They map no GPU library before these are opened.
struct Ranks {
    ranks: Vec<Gated>,
    folder: tempfile::TempDir,
}

impl Ranks {
    fn start(libraries: &Path, environment: &[(&str, &str)], more: &[&str]) -> Ranks {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id").display().to_string();
        let libraries = libraries.display().to_string();
        let steps = STEPS.to_string();
        let start = |rank: &str| {
            let mut words = vec!["--rank", rank, "--nranks", "2", "--id-file", &id, "--steps", &steps];
            words.extend(["--kernel-us", "100", "--libraries", &libraries]);
            words.extend(more);
            Gated::start_with(&sim().join("simrank.py"), &words, environment)
        };
        Ranks { ranks: ["0", "1"].map(start).into(), folder }
    }

    fn finish(self) {
        for rank in &self.ranks {
            rank.open();
        }
        for rank in self.ranks {
            assert_eq!(rank.finish()["steps"], STEPS);
        }
        drop(self.folder);
    }
}

/// The libraries where a wheel of a virtual environment has them.
fn wheel(environment: &Path) -> PathBuf {
    let folder = environment.join("lib/python3.12/site-packages/nvidia/nccl/lib");
    std::fs::create_dir_all(&folder).unwrap();
    for file in gpuwhy_simgpu::FILES.iter().filter(|file| file.name.contains(".so")) {
        std::fs::copy(sim().join(file.name), folder.join(file.name)).unwrap();
    }
    folder
}

fn can_run(test: &str) -> bool {
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    if !has_python {
        skip(test, "there is no python3");
    }
    has_python && can_trace(test)
}

/// Both communicators were seen as they were made, and every collective has its number.
fn assert_all_seen(trace: &Trace) {
    let count =
        |condition: &str| trace.number(&format!("SELECT count(*) FROM nccl_events WHERE {condition}"));
    assert_eq!(count("op = 'COMM_INIT_RANK'"), 2);
    assert_eq!(count("op = 'ALL_REDUCE'"), 2 * STEPS);
    assert_eq!(count("op = 'ALL_REDUCE' AND seq IS NOT NULL AND comm_id_hash IS NOT NULL"), 2 * STEPS);
    assert_eq!(trace.number("SELECT count(DISTINCT comm_id_hash) FROM nccl_events"), 1);
    let late = "SELECT count(*) FROM probes WHERE probe = 'nccl' AND reason LIKE '%calls it made before%'";
    assert_eq!(trace.number(late), 0);
}

#[test]
fn a_library_of_an_interpreters_packages_is_attached_before_it_is_mapped() {
    if !can_run("a_library_of_an_interpreters_packages_is_attached_before_it_is_mapped") {
        return;
    }
    let _turn = alone();
    let environment = tempfile::tempdir().unwrap();
    let libraries = wheel(environment.path());
    let trace = Trace::new();
    let mut running = Running::start(&trace, &[]);
    let path = environment.path().display().to_string();
    let ranks = Ranks::start(&libraries, &[("VIRTUAL_ENV", &path)], &["--load-late-ms", "0"]);
    // Nobody has mapped it: the ranks are at their gates.
    running.until_attached(&libraries.join("libnccl.so.2"));
    running.until_attached(&libraries.join("libcuda.so.1"));
    let pids: Vec<u32> = ranks.ranks.iter().map(Gated::pid).collect();
    ranks.finish();
    running.until_ended(&pids);
    running.stop();
    assert_all_seen(&trace);
}

#[test]
fn a_library_of_an_earlier_trace_is_attached_before_anybody_maps_it() {
    if !can_run("a_library_of_an_earlier_trace_is_attached_before_anybody_maps_it") {
        return;
    }
    let _turn = alone();
    // Not where any program would look: only having seen it tells.
    let hidden = tempfile::tempdir().unwrap();
    let libraries = wheel(&hidden.path().join("hidden"));
    let state = hidden.path().join("state/libraries.json");
    let remember: &[(&str, &OsStr)] = &[("GPUWHY_LIBRARIES", state.as_os_str())];
    let first = Trace::new();
    let mut running = Running::start_with(&first, &[], remember);
    // Its ranks must live until the library is attached: from here on it is known.
    let ranks = Ranks::start(&libraries, &[], &["--load-late-ms", "300", "--kernel-us", "20000"]);
    let pids: Vec<u32> = ranks.ranks.iter().map(Gated::pid).collect();
    ranks.finish();
    running.until_ended(&pids);
    running.stop();
    assert!(state.exists());

    let second = Trace::new();
    let mut running = Running::start_with(&second, &[], remember);
    running.until_attached(&libraries.join("libnccl.so.2"));
    let ranks = Ranks::start(&libraries, &[], &["--load-late-ms", "0"]);
    let pids: Vec<u32> = ranks.ranks.iter().map(Gated::pid).collect();
    ranks.finish();
    running.until_ended(&pids);
    running.stop();
    assert_all_seen(&second);

    // Another file at that path is another library: what was known of the old one is not used.
    let library = libraries.join("libnccl.so.2");
    std::fs::remove_file(&library).unwrap();
    std::fs::write(&library, "no library any more").unwrap();
    let third = Trace::new();
    Running::start_with(&third, &[], remember).stop();
    let sql = format!("SELECT count(*) FROM probes WHERE file = '{}'", library.display());
    assert_eq!(third.number(&sql), 0);
}

#[test]
fn collectives_of_a_communicator_made_unseen_have_no_order_and_that_is_a_finding() {
    if !can_run("collectives_of_a_communicator_made_unseen_have_no_order_and_that_is_a_finding") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let folder = tempfile::tempdir().unwrap();
    let id = folder.path().join("id").display().to_string();
    let start = |rank: &str| {
        let words =
            ["--rank", rank, "--nranks", "2", "--id-file", &id, "--steps", "1000000", "--kernel-us", "100"];
        let rank = Gated::start(&sim().join("simrank.py"), &words);
        rank.open();
        rank
    };
    let ranks = ["0", "1"].map(start);
    let pids: Vec<String> = ranks.iter().map(|rank| rank.pid().to_string()).collect();
    // Its id is there before the communicator; a first trace sees when both are past that.
    let mut running = Running::start(&trace, &["--pid", &pids[0], "--pid", &pids[1]]);
    for rank in &ranks {
        running.until_called(u64::from(rank.pid()), "ncclAllReduce", 20);
    }
    running.stop();
    let again = Trace::new();
    let mut running = Running::start(&again, &["--pid", &pids[0], "--pid", &pids[1]]);
    for rank in &ranks {
        running.until_called(u64::from(rank.pid()), "ncclAllReduce", 20);
    }
    for rank in &ranks {
        signal(rank.pid(), "INT");
    }
    running.stop();
    let answer = done(gpuwhy().args(["explain", "--json"]).arg(again.file()).output().unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let titled = |start: &str| {
        findings.iter().filter(|finding| finding["title"].as_str().unwrap().starts_with(start)).count()
    };
    assert_eq!(titled("order of ranks unknown"), 1, "{answer:#}");
    assert_eq!(titled("rank "), 0, "nobody is accused: {answer:#}");
    let degraded = answer["coverage"]["degraded"].to_string();
    assert!(degraded.contains("order of their ranks is unknown"), "{degraded}");
    // What the library itself knows is right all the same.
    for (rank, pid) in pids.iter().enumerate() {
        let sql = format!(
            "SELECT count(DISTINCT rank) + max(rank) FROM nccl_events WHERE pid = {pid} AND rank IS NOT NULL"
        );
        assert_eq!(again.number(&sql), 1 + rank as i64);
    }
}

/// It is made before our eyes and numbers its collectives, but whose they are only its parent's id would say.
#[test]
fn collectives_of_a_part_of_an_unseen_communicator_have_no_order_and_that_is_a_finding() {
    if !can_run("collectives_of_a_part_of_an_unseen_communicator_have_no_order_and_that_is_a_finding") {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().unwrap();
    let id = folder.path().join("id");
    let split = folder.path().join("split").display().to_string();
    let id_file = id.display().to_string();
    let start = |rank: &str| {
        let words = ["--rank", rank, "--nranks", "2", "--id-file", &id_file, "--split-when", &split];
        let more = ["--steps", "1000000", "--kernel-us", "100"];
        let rank = Gated::start(&sim().join("simrank.py"), &[&words[..], &more].concat());
        rank.open();
        rank
    };
    let ranks = ["0", "1"].map(start);
    for rank in ["joined-0", "joined-1"] {
        wait_until("both ranks have the communicator", || id.with_extension(rank).exists());
    }
    let trace = Trace::new();
    let pids: Vec<String> = ranks.iter().map(|rank| rank.pid().to_string()).collect();
    let mut running = Running::start(&trace, &["--pid", &pids[0], "--pid", &pids[1]]);
    running.until_attached(&sim().join("libnccl.so.2"));
    std::fs::write(&split, "").unwrap();
    for rank in &ranks {
        running.until_called(u64::from(rank.pid()), "ncclAllReduce", 20);
    }
    for rank in &ranks {
        signal(rank.pid(), "INT");
    }
    running.stop();
    let count = |of: &str| {
        trace.number(&format!("SELECT count(*) FROM nccl_events WHERE op = 'ALL_REDUCE' AND {of}"))
    };
    assert!(count("seq IS NOT NULL") >= 40, "they are numbered");
    assert_eq!(count("comm_id_hash IS NOT NULL"), 0, "and of nobody knows which communicator");
    let answer = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let unknown = |finding: &&Value| finding["title"].as_str().unwrap().starts_with("order of ranks unknown");
    assert_eq!(findings.iter().filter(unknown).count(), 1, "{answer:#}");
}
