//! Every collective of every rank, with rank, communicator and number right, and hangs that show while they last.

use crate::support::{Gated, Running, Trace, alone, can_trace, simwork, wait_until};
use rusqlite::Connection;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Ranks in processes of their own that meet through a file, held at their gates.
pub(crate) struct Ranks {
    ranks: Vec<Gated>,
    _folder: tempfile::TempDir,
}

impl Ranks {
    /// `extra` gives each rank options of its own.
    pub(crate) fn start(count: usize, words: &[&str], extra: impl Fn(usize) -> Vec<String>) -> Ranks {
        Self::start_with(count, words, &[], extra)
    }

    pub(crate) fn start_with(
        count: usize,
        words: &[&str],
        environment: &[(&str, &str)],
        extra: impl Fn(usize) -> Vec<String>,
    ) -> Ranks {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().join("id").display().to_string();
        let ranks = (0..count)
            .map(|rank| {
                let mut all: Vec<String> =
                    ["nccl", "--rank", &rank.to_string(), "--nranks", &count.to_string()]
                        .map(ToString::to_string)
                        .to_vec();
                all.extend(["--id-file".to_string(), id.clone()]);
                all.extend(words.iter().map(ToString::to_string));
                all.extend(extra(rank));
                let words: Vec<&str> = all.iter().map(String::as_str).collect();
                Gated::start_with(&simwork(), &words, environment)
            })
            .collect();
        Ranks { ranks, _folder: folder }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.ranks.iter().map(Gated::pid).collect()
    }

    pub(crate) fn open(&self) {
        self.ranks.iter().for_each(Gated::open);
    }

    pub(crate) fn finish(self) -> Vec<Value> {
        self.open();
        self.ranks.into_iter().map(Gated::finish).collect()
    }
}

fn hex(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(ToString::to_string)
}

fn known(value: &Value) -> Option<i64> {
    value.as_i64().filter(|number| *number >= 0)
}

/// Compares what a rank did, call by call, with what the trace says.
fn assert_rank(db: &Connection, truth: &Value) {
    let mut statement = db
        .prepare(
            "SELECT function, comm, comm_id_hash, rank, nranks, seq, count, bytes, stream, peer, ret, wait_ns FROM \
             nccl_events WHERE pid = ? AND count IS NOT NULL ORDER BY timestamp_ns",
        )
        .unwrap();
    type Row = (
        (String, String, Option<String>),
        (i64, i64, Option<i64>),
        (i64, i64, String, Option<i64>, i64),
        Option<i64>,
    );
    let seen: Vec<Row> = statement
        .query_map([truth["pid"].as_i64().unwrap()], |row| {
            Ok((
                (row.get(0)?, row.get(1)?, row.get(2)?),
                (row.get(3)?, row.get(4)?, row.get(5)?),
                (row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?),
                row.get(11)?,
            ))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let made = truth["collectives"].as_array().unwrap();
    assert_eq!(seen.len(), made.len());
    for (call, (who, number, what, wait_ns)) in made.iter().zip(&seen) {
        let function = call["op"].as_str().unwrap().to_string();
        assert_eq!(*who, (function, hex(&call["comm"]).unwrap(), hex(&call["hash"])), "{call}");
        let rank = (call["rank"].as_i64().unwrap(), call["nranks"].as_i64().unwrap(), known(&call["seq"]));
        assert_eq!(*number, rank, "{call}");
        let count = call["count"].as_i64().unwrap();
        let stream = hex(&call["stream"]).unwrap();
        let ret = call["ret"].as_i64().unwrap();
        assert_eq!(*what, (count, count * 4, stream, known(&call["root"]), ret), "{call}");
        assert!(wait_ns.is_some(), "its end was seen in a synchronisation: {call}");
    }
}

#[test]
fn four_ranks_and_their_splits_come_out_call_by_call() {
    if !can_trace("four_ranks_and_their_splits_come_out_call_by_call") {
        return;
    }
    let _turn = alone();
    for init in ["config", "rank", "scalable"] {
        let trace = Trace::new();
        // The rank in a split is read from the library's struct, which is gone when the communicator is destroyed.
        let words = [
            "--iters",
            "4",
            "--op",
            "all",
            "--split",
            "2",
            "--streams",
            "2",
            "--init",
            init,
            "--step-us",
            "10000",
        ];
        let ranks = Ranks::start(4, &words, |_| Vec::new());
        let running = Running::start(&trace, &[]);
        let truths = ranks.finish();
        running.stop();
        let db = trace.db();
        truths.iter().for_each(|truth| assert_rank(&db, truth));
        // One communicator of all, two of half of them, each known by one hash to its ranks and to nobody else.
        let communicators: Vec<(i64, i64)> = db
            .prepare(
                "SELECT count(DISTINCT pid), max(nranks) FROM nccl_events WHERE comm_id_hash IS NOT NULL \
                 GROUP BY comm_id_hash ORDER BY 1",
            )
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(communicators, vec![(2, 2), (2, 2), (4, 4)], "{init}");
    }
}

#[test]
fn one_process_with_many_ranks_has_one_communicator() {
    if !can_trace("one_process_with_many_ranks_has_one_communicator") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["nccl-all", "--ranks", "4", "--iters", "5"]);
    let made = truth["collectives"].as_array().unwrap();
    assert_eq!(trace.number("SELECT count(*) FROM nccl_events WHERE op = 'ALL_REDUCE'"), made.len() as i64);
    assert_eq!(trace.number("SELECT count(DISTINCT comm_id_hash) FROM nccl_events"), 1);
    assert_eq!(trace.number("SELECT count(DISTINCT rank) FROM nccl_events WHERE op = 'ALL_REDUCE'"), 4);
    assert_eq!(trace.number("SELECT max(nranks) FROM nccl_events WHERE op = 'ALL_REDUCE'"), 4);
    assert_eq!(trace.number("SELECT max(seq) FROM nccl_events"), 5);
    assert_eq!(trace.number("SELECT min(grouped) FROM nccl_events WHERE op = 'ALL_REDUCE'"), 1);
}

#[test]
fn both_spellings_of_an_operation_find_its_calls() {
    if !can_trace("both_spellings_of_an_operation_find_its_calls") {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&[], &["nccl-all", "--ranks", "2", "--iters", "3"]);
    let rows = |op: &str| {
        let output = crate::support::gpuwhy()
            .arg("query")
            .arg(trace.file())
            .args(["--op", op, "--format", "json"])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_str(&crate::support::done(output)).unwrap();
        answer["rows"].as_array().unwrap().len()
    };
    assert_eq!((rows("ncclAllReduce"), rows("ALL_REDUCE")), (6, 6));
    assert_eq!(trace.count_of("ncclAllReduce"), 6, "sums are under the library's own name");
}

#[test]
fn a_missing_rank_shows_while_the_others_wait() {
    if !can_trace("a_missing_rank_shows_while_the_others_wait") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let stop = tempfile::tempdir().unwrap();
    let stop_file = stop.path().join("stop").display().to_string();
    let ranks = Ranks::start(3, &["--iters", "50", "--stop-file", &stop_file], |rank| match rank {
        1 => vec!["--stop-at".into(), "20".into()],
        _ => Vec::new(),
    });
    let running = Running::start(&trace, &[]);
    ranks.open();
    // The others hang in the synchronisation behind collective 20, which nobody has seen the end of.
    let waiting =
        "SELECT count(*) FROM calls_in_flight WHERE op = 'cudaStreamSynchronize' AND ended_ns IS NULL";
    wait_until("two ranks are seen to hang", || try_number(&trace.file(), waiting) == Some(2));
    let unfinished = "SELECT count(*) FROM nccl_events WHERE op = 'ALL_REDUCE' AND completed_ns IS NULL";
    wait_until("their collectives are there", || try_number(&trace.file(), unfinished) == Some(2));
    assert_eq!(
        trace.number("SELECT min(seq) FROM nccl_events WHERE op = 'ALL_REDUCE' AND completed_ns IS NULL"),
        20
    );
    assert_eq!(
        trace.number("SELECT max(seq) FROM nccl_events WHERE op = 'ALL_REDUCE' AND rank = 1"),
        19,
        "the missing rank is the one that has not come"
    );
    drop(ranks);
    running.stop();
}

#[test]
fn a_call_that_never_returns_is_in_flight() {
    if !can_trace("a_call_that_never_returns_is_in_flight") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let folder = tempfile::tempdir().unwrap();
    let id = folder.path().join("id").display().to_string();
    let rank = Gated::start(
        &simwork(),
        &["nccl-hang", "--rank", "0", "--nranks", "2", "--id-file", &id, "--absent", "1"],
    );
    let running = Running::start(&trace, &[]);
    rank.open();
    let hangs = "SELECT count(*) FROM calls_in_flight WHERE op = 'ncclCommInitRank' AND rank = 0 AND nranks = 2 \
                 AND comm_id_hash IS NOT NULL AND ended_ns IS NULL";
    wait_until("the call is seen to hang", || try_number(&trace.file(), hangs) == Some(1));
    drop(rank);
    let ended = "SELECT count(*) FROM calls_in_flight WHERE op = 'ncclCommInitRank' AND ended_ns IS NOT NULL";
    wait_until("its end is seen", || try_number(&trace.file(), ended) == Some(1));
    running.stop();
}

/// The file is being written: what cannot be read now can be read soon.
fn try_number(file: &Path, sql: &str) -> Option<i64> {
    let db = Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    db.busy_timeout(Duration::from_secs(1)).ok()?;
    db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).ok()?
}

#[test]
fn nccl_linked_into_another_library_is_found() {
    if !can_trace("nccl_linked_into_another_library_is_found") {
        return;
    }
    // Some builds of PyTorch contain NCCL: the same functions under another file's name.
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    std::fs::rename(folder.path().join("libnccl.so.2"), folder.path().join("libtorch_cuda.so")).unwrap();
    let preload = format!("LD_PRELOAD={}", folder.path().join("libtorch_cuda.so").display());
    let trace = Trace::new();
    let program = folder.path().join(gpuwhy_simgpu::WORKLOAD);
    let words: Vec<&std::ffi::OsStr> = ["env", &preload]
        .map(std::ffi::OsStr::new)
        .into_iter()
        .chain([program.as_os_str()])
        .chain(["nccl-all", "--ranks", "2", "--iters", "3"].map(std::ffi::OsStr::new))
        .collect();
    trace.of_command(&[], &words);
    assert_eq!(trace.number("SELECT count(*) FROM nccl_events WHERE op = 'ALL_REDUCE'"), 6);
    assert!(trace.text("SELECT file FROM libraries WHERE kind = 'libnccl'").ends_with("libtorch_cuda.so"));
}
