//! Kernels and graphs: rows that grow, and launches spelled out to the kernels they ran.

use crate::made::{START, lines, plain, trace, writer};
use gpuwhy_model::{Batch, Call, Direction, Facts, Graph, GraphNode, Kernel, OpId};
use gpuwhy_store::Reader;

fn graph(handle: u64, exec: u64, created: u64, launches: u64) -> Graph {
    Graph {
        pid: 10,
        graph: handle,
        exec: Some(exec),
        created_ns: START + created,
        nodes: Some(3),
        kernels: Some(2),
        launches,
        ..Graph::default()
    }
}

fn node(handle: u64, created: u64, node: u32, kind: &str, function: u64) -> GraphNode {
    GraphNode {
        pid: 10,
        graph: handle,
        created_ns: START + created,
        node,
        kind: kind.into(),
        op: OpId(1),
        handle: function,
        ..GraphNode::default()
    }
}

fn kernel(handle: u64, name: &str, launches: u64) -> Kernel {
    Kernel {
        pid: 10,
        handle,
        name: name.into(),
        mangled: if name.is_empty() { String::new() } else { format!("_Z{name}") },
        module: "/tmp/a.cubin".into(),
        first_ns: START,
        launches,
        launch_ns: launches * 10,
        last_ns: START + launches,
    }
}

fn launch(number: u64, exec: u64) -> Call {
    Call { op: OpId(5), handle: exec, stream: 0x70, ..plain(number) }
}

/// What several writes leave behind.
fn written(facts: &[Facts]) -> (tempfile::TempDir, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut writer = writer(&path);
    for facts in facts {
        writer.write(&Batch::default(), facts).unwrap();
        writer.commit().unwrap();
    }
    writer.finish(1).unwrap();
    (folder, Reader::open(&path).unwrap())
}

#[test]
fn kernels_count_up_and_keep_their_names() {
    let reported = |kernels| Facts { kernels, ..Facts::default() };
    let first = reported(vec![kernel(u64::MAX, "gemm", 3), kernel(0x51, "", 1)]);
    let later =
        reported(vec![Kernel { module: String::new(), ..kernel(u64::MAX, "", 7) }, kernel(0x51, "relu", 2)]);
    let (_folder, reader) = written(&[first, later]);
    assert_eq!(
        lines(
            &reader,
            "SELECT pid, handle, name, mangled, module, first_ns, launches, launch_ns, last_ns FROM kernels"
        ),
        [
            "10|0x51|relu|_Zrelu|/tmp/a.cubin|+0|2|20|+2",
            "10|0xffffffffffffffff|gemm|_Zgemm|/tmp/a.cubin|+0|7|70|+7"
        ]
    );
}

#[test]
fn a_later_row_of_a_graph_takes_the_place_of_the_earlier() {
    let full = Graph {
        capture_ns: Some(5),
        instantiate_ns: Some(6),
        updates: 1,
        launch_ns: 70,
        destroyed_ns: Some(START + 9),
        stack_id: Some(-4),
        ..graph(0x20, 0x30, 1, 2)
    };
    let unknown = Graph { graph: 0, nodes: None, kernels: None, ..graph(0, 0x31, 2, 1) };
    // It lives on as its executable, and an update made its contents unknown.
    let again = Graph { destroyed_ns: None, nodes: None, kernels: None, launches: 5, ..full.clone() };
    let copy = GraphNode {
        bytes: 4096,
        direction: Some(Direction::HostToDevice),
        stack_id: Some(-5),
        ..node(0x20, 1, 0, "copy", 0)
    };
    let first = Facts { graphs: vec![full, unknown], graph_nodes: vec![copy.clone()], ..Facts::default() };
    let columns = "pid, graph, exec, created_ns, capture_ns, instantiate_ns, nodes, kernels, updates, launches, launch_ns, \
                   destroyed_ns, stack_id";
    let nodes = "SELECT pid, graph, created_ns, node, kind, op, handle, bytes, direction, stack_id, replaced FROM graph_nodes";
    let (_folder, reader) = written(std::slice::from_ref(&first));
    assert_eq!(
        lines(&reader, &format!("SELECT {columns} FROM graphs ORDER BY created_ns")),
        ["10|0x20|0x30|+1|5|6|3|2|1|2|70|+9|-4", "10|0x0|0x31|+2|-|-|-|-|0|1|0|-|-"]
    );
    assert_eq!(lines(&reader, nodes), ["10|0x20|+1|0|copy|cuLaunchKernel|-|4096|host_to_device|-5|0"]);
    let kernel = GraphNode { replaced: true, ..node(0x20, 1, 0, "kernel", 0x50) };
    let second = Facts { graphs: vec![again], graph_nodes: vec![kernel], ..Facts::default() };
    let (_folder, reader) = written(&[first, second]);
    assert_eq!(
        lines(&reader, &format!("SELECT {columns} FROM graphs WHERE graph = '0x20'")),
        ["10|0x20|0x30|+1|5|6|-|-|1|5|70|-|-4"]
    );
    assert_eq!(lines(&reader, nodes), ["10|0x20|+1|0|kernel|cuLaunchKernel|0x50|-|-|-|1"]);
}

#[test]
fn launches_of_graphs_are_spelled_out() {
    let graph_nodes = vec![
        node(0x20, 1, 0, "kernel", 0x50),
        node(0x20, 1, 1, "kernel", 0x51),
        node(0x20, 1, 2, "kernel", 0x50),
        node(0x20, 1, 3, "copy", 0),
        GraphNode { replaced: true, ..node(0x20, 1, 4, "kernel", 0x50) },
        // Another graph that got both handles later, and one of another process.
        node(0x20, 50_000, 0, "kernel", 0x51),
        GraphNode { pid: 20, ..node(0x20, 1, 0, "kernel", 0x50) },
    ];
    let graphs = vec![
        Graph { destroyed_ns: Some(START + 40_000), ..graph(0x20, 0x30, 1, 10) },
        graph(0x20, 0x30, 50_000, 3),
        Graph { pid: 20, ..graph(0x20, 0x30, 1, 1) },
    ];
    let kernels = vec![kernel(0x50, "gemm", 0), kernel(0x51, "relu", 0)];
    let calls = vec![
        launch(1, 0x30),
        launch(2, 0x30),
        // Nobody has the handle then, or ever.
        launch(45, 0x30),
        launch(60, 0x30),
        launch(61, 0x77),
        // Not a launch of a graph, though about its executable.
        Call { op: OpId(2), handle: 0x30, ..plain(3) },
    ];
    let facts = Facts { graphs, graph_nodes, kernels, ..Facts::default() };
    let (_folder, reader) = trace(&Batch { calls, ..Batch::default() }, &facts);
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, count(*), sum(kind = 'kernel') FROM graph_launches GROUP BY 1"),
        ["+1000|4|3", "+2000|4|3", "+60000|1|1"]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT op, pid, tid, stream, exec, graph, created_ns, node, kind, node_op, handle, kernel \
             FROM graph_launches WHERE timestamp_ns = 1790000000000001000 ORDER BY node LIMIT 2"
        ),
        [
            "cudaGraphLaunch|10|11|0x70|0x30|0x20|+1|0|kernel|cuLaunchKernel|0x50|gemm",
            "cudaGraphLaunch|10|11|0x70|0x30|0x20|+1|1|kernel|cuLaunchKernel|0x51|relu",
        ]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT pid, exec, graph, created_ns, kernel, nodes, launches FROM graph_kernels ORDER BY 1, 4, 5"
        ),
        [
            "10|0x30|0x20|+1|gemm|2|20",
            "10|0x30|0x20|+1|relu|1|10",
            "10|0x30|0x20|+50000|relu|1|3",
            "20|0x30|0x20|+1|-|1|1"
        ]
    );
    let plan =
        lines(&reader, "EXPLAIN QUERY PLAN SELECT * FROM graph_launches WHERE timestamp_ns > 5").join("\n");
    assert!(
        plan.contains("SEARCH g USING COVERING INDEX graphs_exec (pid=? AND exec=? AND created_ns=?)"),
        "{plan}"
    );
    assert!(
        plan.contains("SEARCH x USING COVERING INDEX graphs_exec (pid=? AND exec=? AND created_ns<?)"),
        "{plan}"
    );
    assert!(plan.contains("SEARCH n USING PRIMARY KEY (pid=? AND graph=? AND created_ns=?)"), "{plan}");
}
