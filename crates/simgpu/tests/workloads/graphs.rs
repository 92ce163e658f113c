//! Captured and built graphs.

use crate::support::{Folder, number};

#[test]
fn graphs_replay_what_was_captured() {
    let folder = Folder::unpack();
    let truth = folder.run("simwork graph --replays 20 --nodes 7 --recapture-every 5 --kernel-us 100");
    assert_eq!(number(&truth["nodes"]), 7, "{truth}");
    assert_eq!(number(&truth["captures"]), 4, "{truth}");
    assert_eq!(number(&truth["ops"]["cudaGraphLaunch"]), 20, "{truth}");
    assert_eq!(number(&truth["ops"]["cuLaunchKernel"]), 28, "launches of captures only: {truth}");
}

#[test]
fn graphs_are_made_in_every_way() {
    let folder = Folder::unpack();
    for mode in ["capture", "explicit", "child", "two-streams", "update"] {
        let truth = folder.run(&format!(
            "simwork graph --mode {mode} --nodes 4 --copies 1 --hosts 1 --replays 6 --recapture-every 2 --kernel-us 500"
        ));
        let ops = &truth["ops"];
        assert_eq!(number(&truth["captures"]), 3, "{truth}");
        assert_eq!(number(&truth["execs"]), if mode == "update" { 1 } else { 3 }, "{truth}");
        assert_eq!(ops["cudaGraphInstantiateWithFlags"], truth["execs"], "{truth}");
        let kinds = |list: &str| -> Vec<String> {
            let nodes = truth[list].as_array().unwrap();
            nodes.iter().map(|node| node["kind"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(kinds("graph_nodes").len() as u64, number(&truth["nodes"]), "{truth}");
        let body = ["set", "kernel", "kernel", "kernel", "kernel", "host", "copy"];
        if mode == "child" {
            assert_eq!(kinds("graph_nodes"), ["kernel", "graph", "kernel"], "{truth}");
            assert_eq!(kinds("child_nodes"), body, "{truth}");
        } else {
            assert_eq!(kinds("graph_nodes"), body, "{truth}");
        }
        let launched = ops["cuLaunchKernel"].as_u64().unwrap_or(0);
        assert_eq!(launched, if mode == "explicit" { 0 } else { 12 }, "{truth}");
    }
}

/// The nodes of a graph inside of a graph run too: six launches of four kernels and two around them.
#[test]
fn launched_graphs_run_their_children() {
    let folder = Folder::unpack();
    let begin = std::time::Instant::now();
    let truth = folder.run("simwork graph --mode child --nodes 4 --replays 6 --kernel-us 2000");
    assert_eq!(number(&truth["ops"]["cudaGraphLaunch"]), 6, "{truth}");
    assert!(begin.elapsed().as_millis() >= 6 * 6 * 2, "{:?}", begin.elapsed());
}
