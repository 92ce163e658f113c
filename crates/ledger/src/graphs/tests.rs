//! Graphs from hand-made calls: captures, children, updates, reuse of handles.

use super::rows::LINGER_NS;
use super::*;
use crate::captures::Captures;
use crate::testing::{PID, call, handle, op};
use gpuwhy_model::Direction;

const S: u64 = 1_000_000_000;

/// Captures and graphs of a process, as [`crate::process::Process`] wires them.
struct Both {
    captures: Captures,
    graphs: Graphs,
}

impl Both {
    fn new() -> Self {
        Both { captures: Captures::default(), graphs: Graphs::new(PID) }
    }

    fn begin(&mut self, number: u64, end_ns: u64) {
        let call = Call { capture: number, stack_id: Some(1), ..call("cudaStreamBeginCapture", end_ns) };
        if let Some(capture) = self.captures.begin(&call) {
            self.graphs.capture_begun_late(&capture);
        }
    }

    fn launch(&mut self, number: u64, function: u64, end_ns: u64) {
        let call = Call { capture: number, ..handle("cuLaunchKernel", end_ns, function) };
        self.graphs.node(&call, Kind::Kernel);
    }

    fn end(&mut self, number: u64, graph: u64, end_ns: u64) {
        let call = Call { capture: number, ..handle("cudaStreamEndCapture", end_ns, graph) };
        let capture = self.captures.end(&call);
        self.graphs.capture_ended(&call, &capture);
    }

    fn instantiate(&mut self, graph: u64, exec: u64, end_ns: u64) {
        let call = Call { aux: graph, ..handle("cudaGraphInstantiate", end_ns, exec) };
        self.graphs.instantiated(&call);
    }

    fn update(&mut self, exec: u64, graph: u64, end_ns: u64) {
        self.graphs.updated(&Call { aux: graph, ..handle("cudaGraphExecUpdate", end_ns, exec) });
    }

    fn destroy(&mut self, graph: u64, end_ns: u64) -> Taken {
        self.graphs.graph_destroyed(&handle("cudaGraphDestroy", end_ns, graph))
    }

    fn destroy_exec(&mut self, exec: u64, end_ns: u64) -> Taken {
        self.graphs.exec_destroyed(&handle("cudaGraphExecDestroy", end_ns, exec))
    }

    fn add(&mut self, graph: u64, kind: Kind, handle_: u64, end_ns: u64) -> Taken {
        self.graphs.added(&Call { aux: graph, ..handle("cudaGraphAddKernelNode", end_ns, handle_) }, kind)
    }

    fn count(&mut self, exec: u64, count: u64, time_ns: u64) {
        let count = LaunchCount { time_ns, pid: PID, handle: exec, graph: true, count, sum_ns: 10 * count };
        self.graphs.launched(&count);
    }

    fn reported(&mut self) -> Facts {
        let mut facts = Facts::default();
        self.graphs.emit(&mut facts);
        facts
    }
}

/// Node, kind, handle and whether it was replaced.
fn nodes(facts: &Facts) -> Vec<(u32, &str, u64, bool)> {
    facts.graph_nodes.iter().map(|row| (row.node, row.kind.as_str(), row.handle, row.replaced)).collect()
}

#[test]
fn a_capture_becomes_a_graph_and_an_executable() {
    let mut both = Both::new();
    both.begin(1, 101);
    both.launch(1, 0x50, 110);
    let copy = Call {
        capture: 1,
        bytes: 64,
        direction: Some(Direction::Peer),
        stack_id: Some(9),
        ..call("cudaMemcpyAsync", 120)
    };
    both.graphs.node(&copy, Kind::Copy);
    both.end(1, 0xa, 201);
    let row = Graph {
        pid: PID,
        graph: 0xa,
        created_ns: 100,
        capture_ns: Some(101),
        nodes: Some(2),
        kernels: Some(1),
        stack_id: Some(1),
        ..Graph::default()
    };
    let facts = both.reported();
    assert_eq!(facts.graphs, std::slice::from_ref(&row));
    assert_eq!(nodes(&facts), [(0, "kernel", 0x50, false), (1, "copy", 0, false)]);
    let second = &facts.graph_nodes[1];
    assert_eq!((second.created_ns, second.op, second.bytes), (100, op("cudaMemcpyAsync"), 64));
    assert_eq!((second.direction, second.stack_id), (Some(Direction::Peer), Some(9)));

    both.instantiate(0xa, 0xe, 301);
    assert_eq!(both.destroy(0xa, 310), Taken::Done);
    both.count(0xe, 5, 1_000);
    let executable =
        Graph { exec: Some(0xe), instantiate_ns: Some(1), launches: 5, launch_ns: 50, ..row.clone() };
    let facts = both.reported();
    assert_eq!((facts.graphs, facts.graph_nodes.len()), (vec![executable.clone()], 0));
    both.count(0xe, 5, 1_500);
    assert_eq!(both.reported(), Facts::default());
    assert_eq!(both.destroy_exec(0xe, 2_000), Taken::Done);
    assert_eq!(both.reported().graphs, [Graph { destroyed_ns: Some(2_000), ..executable }]);
}

#[test]
fn a_failed_capture_is_no_graph() {
    let mut both = Both::new();
    both.begin(1, 101);
    both.launch(1, 0x50, 110);
    let call = Call { capture: 1, ret: 901, ..handle("cudaStreamEndCapture", 200, 0xbad) };
    let capture = both.captures.end(&call);
    both.graphs.capture_ended(&call, &capture);
    both.launch(1, 0x51, 120);
    assert_eq!(both.reported(), Facts::default());
}

#[test]
fn nodes_and_begin_may_come_late() {
    let mut both = Both::new();
    both.launch(1, 0x52, 120);
    both.end(1, 0xa, 200);
    both.instantiate(0xa, 0xe, 300);
    let facts = both.reported();
    assert_eq!((facts.graphs[0].capture_ns, facts.graphs[0].nodes), (None, Some(1)));
    both.begin(1, 100);
    both.launch(1, 0x51, 110);
    let facts = both.reported();
    assert_eq!((facts.graphs[0].capture_ns, facts.graphs[0].nodes), (Some(101), Some(2)));
    assert_eq!(facts.graphs[0].created_ns, 199);
    assert_eq!(nodes(&facts), [(0, "kernel", 0x51, false), (1, "kernel", 0x52, false)]);
    // A second executable has them as well.
    both.instantiate(0xa, 0xf, 400);
    assert_eq!(both.reported().graphs[0].nodes, Some(2));
}

#[test]
fn a_graph_instantiated_twice_is_two_rows() {
    let mut both = Both::new();
    both.begin(1, 100);
    both.launch(1, 0x50, 110);
    both.end(1, 0xa, 200);
    both.instantiate(0xa, 0xe, 300);
    both.instantiate(0xa, 0xf, 400);
    let facts = both.reported();
    let seen: Vec<_> = facts.graphs.iter().map(|row| (row.graph, row.exec, row.created_ns)).collect();
    assert_eq!(seen, [(0xa, Some(0xe), 99), (0xa, Some(0xf), 399)]);
    let created: Vec<_> = facts.graph_nodes.iter().map(|node| node.created_ns).collect();
    assert_eq!(created, [99, 399]);
    assert_eq!(both.destroy_exec(0xe, 500), Taken::Done);
    assert_eq!(both.reported().graphs.len(), 1);
}

#[test]
fn graphs_are_built_cloned_and_nested() {
    let mut both = Both::new();
    both.graphs.created(&handle("cudaGraphCreate", 10, 0xc));
    assert_eq!(both.add(0xc, Kind::Kernel, 0x50, 20), Taken::Done);
    assert_eq!(both.add(0xc, Kind::Set, 0, 21), Taken::Done);
    both.graphs.created(&handle("cudaGraphCreate", 30, 0xa));
    assert_eq!(both.add(0xa, Kind::Host, 0, 40), Taken::Done);
    assert_eq!(both.add(0xa, Kind::Graph, 0xc, 41), Taken::Done);
    assert_eq!(both.add(0x99, Kind::Kernel, 0x50, 42), Taken::NotYet);
    let facts = both.reported();
    assert!(facts.graph_nodes.is_empty());
    assert_eq!(facts.graphs[1].nodes, Some(4));
    both.graphs.cloned(&Call { aux: 0xa, ..handle("cudaGraphClone", 50, 0xb) });
    // What is added later is in neither the copy nor the executable.
    both.instantiate(0xa, 0xe, 60);
    assert_eq!(both.add(0xa, Kind::Copy, 0, 70), Taken::Done);
    both.instantiate(0xb, 0xf, 80);
    let facts = both.reported();
    let counts: Vec<_> = facts.graphs.iter().map(|row| (row.graph, row.nodes, row.kernels)).collect();
    assert_eq!(counts, [(0xa, Some(4), Some(1)), (0xb, Some(4), Some(1))]);
    let expected =
        [(0, "host", 0, false), (1, "graph", 0xc, false), (2, "kernel", 0x50, false), (3, "set", 0, false)];
    assert_eq!(nodes(&facts), [expected, expected].concat());
    // The next executable has it.
    both.instantiate(0xa, 0xd, 90);
    assert_eq!(both.reported().graphs[0].nodes, Some(5));
}

#[test]
fn a_graph_launched_during_a_capture_is_inside() {
    let mut both = Both::new();
    both.begin(1, 100);
    both.launch(1, 0x50, 110);
    both.end(1, 0xa, 200);
    both.instantiate(0xa, 0xe, 300);
    both.reported();
    both.begin(2, 400);
    both.graphs.node(&Call { capture: 2, ..handle("cudaGraphLaunch", 410, 0xe) }, Kind::Graph);
    both.end(2, 0xb, 500);
    let facts = both.reported();
    assert_eq!(nodes(&facts), [(0, "graph", 0xe, false), (1, "kernel", 0x50, false)]);
    assert_eq!(facts.graphs[0].kernels, Some(1));
}

#[test]
fn a_capture_may_go_into_a_graph_that_exists() {
    let mut both = Both::new();
    both.graphs.created(&handle("cudaGraphCreate", 10, 0xa));
    assert_eq!(both.add(0xa, Kind::Host, 0, 20), Taken::Done);
    for (number, at_ns) in [(1, 100), (2, 200)] {
        both.begin(number, at_ns);
        both.launch(number, 0x50, at_ns + 10);
        both.end(number, 0xa, at_ns + 50);
    }
    let facts = both.reported();
    assert_eq!(facts.graphs.len(), 1);
    assert_eq!((facts.graphs[0].nodes, facts.graphs[0].capture_ns), (Some(3), Some(102)));
}

#[test]
fn an_update_takes_over_the_other_graphs_contents() {
    let mut both = Both::new();
    both.begin(1, 100);
    both.launch(1, 0x50, 110);
    both.launch(1, 0x51, 111);
    both.end(1, 0xa, 200);
    both.instantiate(0xa, 0xe, 300);
    both.reported();
    both.begin(2, 400);
    both.launch(2, 0x60, 410);
    both.end(2, 0xb, 500);
    both.update(0xe, 0xb, 600);
    assert_eq!(both.destroy(0xb, 610), Taken::Done);
    let facts = both.reported();
    let (old, new) = (&facts.graphs[0], &facts.graphs[1]);
    assert_eq!((old.graph, old.updates, old.nodes, old.destroyed_ns), (0xa, 1, Some(1), None));
    assert_eq!((new.graph, new.exec, new.destroyed_ns), (0xb, None, Some(610)));
    assert_eq!(
        nodes(&facts),
        [(1, "kernel", 0x51, true), (0, "kernel", 0x60, false), (0, "kernel", 0x60, false)]
    );
}

#[test]
fn an_executable_from_before_the_trace_has_a_row_without_contents() {
    let mut both = Both::new();
    both.count(0xe, 3, 1_000);
    both.count(0xf, 4, 1_000);
    let facts = both.reported();
    let seen: Vec<_> = facts
        .graphs
        .iter()
        .map(|row| (row.graph, row.exec, row.created_ns, row.nodes, row.launches))
        .collect();
    assert_eq!(seen, [(0, Some(0xe), 1_000, None, 3), (0, Some(0xf), 1_001, None, 4)]);
    // Its end may have been told before its first count was.
    assert_eq!(both.destroy_exec(0xe, 900), Taken::Done);
    assert_eq!(both.reported().graphs[0].destroyed_ns, Some(1_000));
    // An update tells what is in it.
    both.begin(1, 1_100);
    both.launch(1, 0x50, 1_110);
    both.end(1, 0xa, 1_200);
    both.update(0xf, 0xa, 1_300);
    both.update(0xd, 0xa, 1_400);
    let facts = both.reported();
    let seen: Vec<_> = facts.graphs.iter().map(|row| (row.exec, row.nodes, row.updates)).collect();
    assert_eq!(seen, [(Some(0xf), Some(1), 1), (None, Some(1), 0), (Some(0xd), Some(1), 1)]);
    // One of an unknown graph is known all the same.
    both.instantiate(0x77, 0xc, 1_500);
    let facts = both.reported();
    assert_eq!((facts.graphs[0].graph, facts.graphs[0].exec, facts.graphs[0].nodes), (0x77, Some(0xc), None));
}

#[test]
fn handles_are_used_again() {
    let mut both = Both::new();
    for (number, at_ns) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
        both.begin(number, at_ns);
        for node in 0..number {
            both.launch(number, 0x50 + node, at_ns + 10 + node);
        }
        both.end(number, 0xa, at_ns + 100);
        both.instantiate(0xa, 0xe, at_ns + 200);
        assert_eq!(both.destroy(0xa, at_ns + 300), Taken::Done);
        if number != 2 {
            assert_eq!(both.destroy_exec(0xe, at_ns + 700), Taken::Done);
        }
    }
    // The kernel counts by handle: 500 ns, 1000 ns and 500 ns of the time since the last reading are each one's.
    both.count(0xe, 20, 4_000);
    let facts = both.reported();
    let seen: Vec<_> =
        facts.graphs.iter().map(|row| (row.created_ns, row.nodes, row.destroyed_ns, row.launches)).collect();
    let expected = [
        (999, Some(1), Some(1_700), 5),
        // Nobody told that the second was destroyed; its handle is another's.
        (1_999, Some(2), Some(3_200), 10),
        (2_999, Some(3), Some(3_700), 5),
    ];
    assert_eq!(seen, expected);
    both.graphs.forget(4_000 + LINGER_NS);
    assert_eq!((both.graphs.rows.iter().count(), both.graphs.knows_exec(0xe)), (0, false));
}

#[test]
fn a_destroy_that_returns_late_leaves_the_next_alone() {
    let mut both = Both::new();
    both.instantiate(0xa, 0xe, 100);
    both.instantiate(0xa, 0xe, 300);
    let slow = Call { start_ns: 200, duration_ns: 150, ..handle("cudaGraphExecDestroy", 350, 0xe) };
    assert_eq!(both.graphs.exec_destroyed(&slow), Taken::Done);
    let ends: Vec<_> = both.reported().graphs.iter().map(|row| row.destroyed_ns).collect();
    assert_eq!(ends, [Some(350), None]);
    // An older one whose record is late is over already.
    both.instantiate(0xa, 0xe, 250);
    assert_eq!(both.reported().graphs[1].destroyed_ns, Some(299));
}

#[test]
fn records_of_one_moment_may_come_in_any_order() {
    let mut both = Both::new();
    // Counted, then destroyed, then made executable, then captured.
    both.count(0xe, 3, 1_000);
    both.reported();
    assert_eq!(both.destroy(0xa, 450), Taken::NotYet);
    both.instantiate(0xa, 0xe, 400);
    let facts = both.reported();
    let seen: Vec<_> = facts.graphs.iter().map(|row| (row.graph, row.launches, row.destroyed_ns)).collect();
    assert_eq!(seen, [(0, 0, Some(1_000)), (0xa, 3, None)]);
    both.launch(1, 0x50, 110);
    both.begin(1, 100);
    both.end(1, 0xa, 200);
    assert_eq!(both.destroy(0xa, 450), Taken::Done);
    let facts = both.reported();
    let row = &facts.graphs[0];
    assert_eq!((facts.graphs.len(), row.graph, row.exec, row.created_ns), (1, 0xa, Some(0xe), 399));
    assert_eq!((row.nodes, row.capture_ns, row.destroyed_ns), (Some(1), Some(101), None));
    assert_eq!(nodes(&facts), [(0, "kernel", 0x50, false)]);
    both.count(0xe, 4, 1_500);
    assert_eq!(both.reported().graphs[0].launches, 4);
}

#[test]
fn an_instantiation_may_be_told_after_its_graph_was_destroyed() {
    let mut both = Both::new();
    both.begin(1, 100);
    both.end(1, 0xa, 200);
    assert_eq!(both.destroy(0xa, 400), Taken::Done);
    assert_eq!(both.reported().graphs[0].destroyed_ns, Some(400));
    both.instantiate(0xa, 0xe, 300);
    let row = &both.reported().graphs[0];
    assert_eq!((row.exec, row.destroyed_ns, row.nodes), (Some(0xe), None, Some(0)));
}

#[test]
fn graphs_end_with_their_process() {
    let mut both = Both::new();
    both.begin(1, 100);
    both.end(1, 0xa, 200);
    both.instantiate(0xb, 0xe, 300);
    both.graphs.close(5_000);
    assert!(both.reported().graphs.iter().all(|row| row.destroyed_ns == Some(5_000)));
    // The last launches are counted after the end.
    both.count(0xe, 7, 6_000);
    assert_eq!(both.reported().graphs[0].launches, 7);
}

#[test]
fn tables_are_bounded() {
    let mut both = Both::new();
    for i in 0..MAX_GRAPHS as u64 + 10 {
        both.graphs.created(&handle("cudaGraphCreate", 2 + i, 0x1000 + i));
        both.instantiate(0x1000 + i, 0x9000 + i, 3 + i);
    }
    assert_eq!(both.graphs.rows.iter().count(), MAX_GRAPHS);
    assert!(!both.graphs.knows_exec(0x9009) && both.graphs.knows_exec(0x900a));

    let mut both = Both::new();
    for number in 1..=8 {
        both.begin(number, number * S);
        for node in 0..MAX_KEPT_NODES as u64 / 6 {
            both.launch(number, 0x50, number * S + node + 2);
        }
        both.end(number, number, number * S + S / 2);
        both.reported();
        both.graphs.forget(number * S + S / 2);
    }
    let kept: Vec<_> = both.graphs.rows.iter().map(|(_, row)| row.contents.is_some()).collect();
    assert_eq!(kept, [false, false, true, true, true, true, true, true]);
    assert!(both.graphs.rows.iter().all(|(_, row)| row.graph.nodes == Some(MAX_KEPT_NODES as u64 / 6)));
}
