//! Kernels, graphs and their nodes: a later row is about the same thing as an earlier one of the same key.

use super::Ops;
use super::row::{handle, hex, known, nonzero, number, put};
use crate::schema::graphs::{GRAPH_NODES, GRAPHS, KERNELS};
use gpuwhy_model::{Graph, GraphNode, Kernel};
use rusqlite::Connection;

/// What a later row does not know any more, such as a name, stays.
pub(super) fn kernels(db: &Connection, kernels: &[Kernel], session_id: i64) -> rusqlite::Result<()> {
    if kernels.is_empty() {
        return Ok(());
    }
    let mut upsert = db.prepare_cached(&KERNELS.upsert_sql())?;
    for kernel in kernels {
        put!(
            upsert,
            KERNELS,
            "pid" = kernel.pid,
            "handle" = hex(kernel.handle),
            "name" = known(&kernel.name),
            "mangled" = known(&kernel.mangled),
            "module" = known(&kernel.module),
            "first_ns" = nonzero(kernel.first_ns),
            "session_id" = session_id,
            "launches" = kernel.launches as i64,
            "launch_ns" = kernel.launch_ns as i64,
            "last_ns" = nonzero(kernel.last_ns),
        );
    }
    Ok(())
}

/// A later row may take back what an earlier one said: a graph that was destroyed lives on as its executable.
pub(super) fn graphs(db: &Connection, graphs: &[Graph], session_id: i64) -> rusqlite::Result<()> {
    if graphs.is_empty() {
        return Ok(());
    }
    let mut replace = db.prepare_cached(&GRAPHS.replace_sql())?;
    for graph in graphs {
        put!(
            replace,
            GRAPHS,
            "pid" = graph.pid,
            "graph" = hex(graph.graph),
            "exec" = graph.exec.map(hex),
            "created_ns" = graph.created_ns as i64,
            "capture_ns" = number(graph.capture_ns),
            "instantiate_ns" = number(graph.instantiate_ns),
            "nodes" = number(graph.nodes),
            "launches" = graph.launches as i64,
            "destroyed_ns" = number(graph.destroyed_ns),
            "stack_id" = graph.stack_id,
            "session_id" = session_id,
            "kernels" = number(graph.kernels),
            "updates" = graph.updates as i64,
            "launch_ns" = graph.launch_ns as i64,
        );
    }
    Ok(())
}

pub(super) fn nodes(
    db: &Connection,
    nodes: &[GraphNode],
    ops: &mut Ops,
    session_id: i64,
) -> rusqlite::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let mut replace = db.prepare_cached(&GRAPH_NODES.replace_sql())?;
    for node in nodes {
        put!(
            replace,
            GRAPH_NODES,
            "pid" = node.pid,
            "graph" = hex(node.graph),
            "created_ns" = node.created_ns as i64,
            "node" = node.node,
            "kind" = &node.kind,
            "op" = ops.name_of(db, node.op)?,
            "handle" = handle(node.handle),
            "bytes" = nonzero(node.bytes),
            "direction" = node.direction.map(gpuwhy_model::Direction::name),
            "stack_id" = node.stack_id,
            "replaced" = node.replaced,
            "session_id" = session_id,
        );
    }
    Ok(())
}
