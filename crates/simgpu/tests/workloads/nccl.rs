//! Communicators of several processes, and of one.

use std::process::Child;

use serde_json::Value;

use crate::support::{Folder, finish, number};

#[test]
fn late_rank_holds_up_the_other() {
    let folder = Folder::unpack();
    for operation in ["allreduce", "sendrecv"] {
        let rank = |rank: u32, late_us: u32| {
            let id = folder.path(&format!("id-{operation}"));
            let arguments = format!(
                "simwork nccl --rank {rank} --nranks 2 --iters 5 --late-us {late_us} --op {operation} --id-file {}",
                id.display()
            );
            folder.command(&arguments).spawn().unwrap()
        };
        let (punctual, late) = (rank(0, 0), rank(1, 20_000));
        let (punctual, late) = (finish(punctual), finish(late));
        assert!(number(&punctual["sync_ns"]) >= 5 * 15_000_000, "{punctual}");
        assert!(number(&late["sync_ns"]) < number(&punctual["sync_ns"]), "{late}");
        assert!(number(&punctual["call_ns"]) < 50_000_000, "the call only queues: {punctual}");
    }
}

/// Starts all ranks of a communicator, and waits for what they did.
fn ranks(folder: &Folder, name: &str, nranks: u32, arguments: &str) -> Vec<Value> {
    let id = folder.path(name);
    let ranks: Vec<Child> = (0..nranks)
        .map(|rank| {
            let arguments = format!(
                "simwork nccl --rank {rank} --nranks {nranks} --id-file {} {arguments}",
                id.display()
            );
            folder.command(&arguments).spawn().unwrap()
        })
        .collect();
    ranks.into_iter().map(finish).collect()
}

/// What the ranks of one communicator have to agree on, in the order of their calls.
fn agreed(truth: &Value, hash: &Value) -> Vec<(Value, Value, Value)> {
    let calls = truth["collectives"].as_array().unwrap();
    let own = calls.iter().filter(|call| call["hash"] == *hash && call["seq"] != -1);
    own.map(|call| (call["seq"].clone(), call["op"].clone(), call["count"].clone())).collect()
}

#[test]
fn every_collective_is_listed_with_its_number() {
    let folder = Folder::unpack();
    for (init, way, teardown) in [
        ("rank", "ncclCommInitRank", "ncclCommDestroy"),
        ("config", "ncclCommInitRankConfig", "ncclCommAbort"),
        ("scalable", "ncclCommInitRankScalable", "ncclCommDestroy"),
    ] {
        let how = teardown.trim_start_matches("ncclComm").to_lowercase();
        let truths = ranks(&folder, init, 2, &format!("--op all --iters 3 --init {init} --teardown {how}"));
        for truth in &truths {
            let calls = truth["collectives"].as_array().unwrap();
            assert_eq!(calls.len(), 3 * 12, "{truth}");
            assert_eq!(number(&truth["ops"][way]), 1, "{truth}");
            assert_eq!(number(&truth["ops"][teardown]), 1, "{truth}");
            let numbers: Vec<_> = calls.iter().filter_map(|call| call["seq"].as_u64()).collect();
            assert_eq!(numbers, (1..=30).collect::<Vec<_>>(), "{truth}");
            for call in calls {
                assert_eq!(call["ret"], 0, "{call}");
                let listed = calls.iter().filter(|other| other["op"] == call["op"]).count() as u64;
                assert_eq!(listed, number(&truth["ops"][call["op"].as_str().unwrap()]), "{call}");
            }
        }
        let hash = &truths[0]["collectives"][0]["hash"];
        assert_eq!(agreed(&truths[0], hash), agreed(&truths[1], hash));
    }
}

#[test]
fn split_communicators_take_turns_with_their_parent() {
    let folder = Folder::unpack();
    let truths = ranks(&folder, "split", 3, "--op all --iters 8 --split 2 --streams 2");
    for (rank, truth) in truths.iter().enumerate() {
        let calls = truth["collectives"].as_array().unwrap();
        let (parent, part) = (&calls[0], calls.last().unwrap());
        assert_eq!((&parent["nranks"], &parent["rank"]), (&3.into(), &rank.into()), "{truth}");
        let place = [(0, 2), (0, 1), (1, 2)][rank];
        assert_eq!((&part["rank"], &part["nranks"]), (&place.0.into(), &place.1.into()), "{truth}");
        assert_eq!(agreed(truth, &parent["hash"]).len(), agreed(truth, &part["hash"]).len(), "{truth}");
        assert_eq!(agreed(truth, &parent["hash"]), agreed(&truths[0], &parent["hash"]));
        assert_eq!(number(&truth["ops"]["cudaStreamSynchronize"]), 8, "{truth}");
        assert_ne!(calls[0]["stream"], calls[12]["stream"], "{truth}");
    }
    let hash_of_part = |rank: usize| &truths[rank]["collectives"].as_array().unwrap().last().unwrap()["hash"];
    assert_eq!(hash_of_part(0), hash_of_part(2));
    assert_ne!(hash_of_part(0), hash_of_part(1));
}

#[test]
fn one_process_may_hold_all_ranks() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork nccl-all --ranks 3 --iters 4");
    assert_eq!(number(&truth["ops"]["ncclAllReduce"]), 12, "{truth}");
    assert_eq!(number(&truth["ops"]["ncclGroupEnd"]), 4, "{truth}");
    let last = truth["collectives"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["hash"], &last["rank"], &last["seq"]), (&"".into(), &2.into(), &4.into()));
}

#[test]
fn ranks_hang_in_the_call_until_the_absent_one_joins() {
    let folder = Folder::unpack();
    let (id, stop) = (folder.path("id"), folder.path("stop"));
    let ranks: Vec<Child> = (0..3)
        .map(|rank| {
            let arguments = format!(
                "simwork nccl-hang --rank {rank} --nranks 3 --absent 1 --id-file {} --stop-file {}",
                id.display(),
                stop.display()
            );
            folder.command(&arguments).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(100));
    std::fs::write(&stop, "").unwrap();
    for (rank, child) in ranks.into_iter().enumerate() {
        let truth = finish(child);
        let hangs = truth["unfinished"]["ncclCommInitRank"].as_u64().unwrap_or(0);
        assert_eq!(hangs, u64::from(rank != 1), "{truth}");
    }
}

#[test]
fn nccl_mixed_lists_every_call() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork nccl-mixed --linger-ms 0");
    let calls = truth["collectives"].as_array().unwrap();
    for (op, count) in truth["ops"].as_object().unwrap().iter().filter(|(op, _)| op.starts_with("nccl")) {
        let listed = calls.iter().filter(|call| call["op"] == op.as_str()).count() as u64;
        // Two more ranks join, on threads of their own.
        let elsewhere = if op == "ncclCommInitRank" { 2 } else { 0 };
        assert_eq!(listed + elsewhere, number(count), "{op}");
    }
    assert!(calls.iter().all(|call| call["ret"] == 0), "{truth}");
    let numbers: Vec<_> = calls.iter().filter_map(|call| call["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=18).collect::<Vec<_>>(), "{truth}");
    let place = |op: &str| {
        let call = calls.iter().find(|call| call["op"] == op).unwrap();
        (number(&call["rank"]), number(&call["nranks"]))
    };
    assert_eq!(place("ncclCommInitRank"), (1, 3), "{truth}");
    assert_eq!(place("ncclCommShrink"), (0, 1), "those left out do not count: {truth}");
}
