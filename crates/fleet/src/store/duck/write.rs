//! Writing a group: one transaction, which is on disk when it returns.

use super::{Open, columns};
use crate::journal::Position;
use crate::point::{Batch, Collective, Found};
use duckdb::{Connection, params};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// That a node still speaks is written so often; a new one at once.
const NODES_EVERY: Duration = Duration::from_secs(5);

/// Its cluster and its name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) last_ns: i64,
    resource: Arc<str>,
    /// The file does not say so yet.
    changed: bool,
}

/// Nodes that spoke again are put here on their way to the table, and what is to be forgotten; both are nobody else's, and never on
/// disk.
pub(super) fn prepare(connection: &Connection) -> duckdb::Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE spoken (cluster_id VARCHAR, node_id VARCHAR, last_seen_ns BIGINT, resource VARCHAR);
         CREATE TEMP TABLE given_up (sender UINTEGER, cluster_id VARCHAR, before_ns BIGINT)",
    )
}

pub(super) fn known_nodes(connection: &Connection) -> duckdb::Result<HashMap<Key, Node>> {
    let mut statement =
        connection.prepare("SELECT cluster_id, node_id, last_seen_ns, resource FROM nodes")?;
    let known = statement.query_map([], |row| {
        let (cluster, node): (String, String) = (row.get(0)?, row.get(1)?);
        let resource: Option<String> = row.get(3)?;
        let known =
            Node { last_ns: row.get(2)?, resource: resource.unwrap_or_default().into(), changed: false };
        Ok(((cluster.into(), node.into()), known))
    })?;
    known.collect()
}

pub(super) fn group(open: &mut Open, group: &[&Batch], to: Position) -> duckdb::Result<()> {
    let writer = &open.writer;
    writer.execute_batch("BEGIN TRANSACTION")?;
    events(writer, group)?;
    if group.iter().any(|batch| !batch.collectives.is_empty()) {
        collectives(writer, group)?;
    }
    if group.iter().any(|batch| !batch.findings.is_empty()) {
        findings(writer, group)?;
    }
    let mut ids = writer.appender("batches")?;
    for batch in group {
        ids.append_row(params![batch.id, batch.received_ns])?;
    }
    ids.flush()?;
    drop(ids);
    writer.execute("UPDATE journal SET segment = ?, position = ?", [to.segment, to.offset])?;
    let spoken = spoken(group);
    new_nodes(writer, spoken.iter().filter(|(key, _)| !open.nodes.contains_key(*key)))?;
    let due = open.nodes_written.elapsed() > NODES_EVERY;
    if due {
        known_again(writer, open.nodes.iter().filter(|(_, node)| node.changed))?;
    }
    writer.execute_batch("COMMIT")?;
    // Only what is on disk is remembered as such.
    if due {
        open.nodes.values_mut().for_each(|node| node.changed = false);
        open.nodes_written = Instant::now();
    }
    for (key, node) in spoken {
        let changed = open.nodes.contains_key(&key);
        open.nodes.insert(key, Node { changed, ..node });
    }
    Ok(())
}

/// The nodes of a group, as they spoke last.
fn spoken(group: &[&Batch]) -> HashMap<Key, Node> {
    let seen = group.iter().flat_map(|batch| &batch.nodes);
    seen.map(|seen| {
        let node = Node { last_ns: seen.at_ns, resource: seen.resource.clone(), changed: false };
        ((seen.cluster.clone(), seen.node.clone()), node)
    })
    .collect()
}

fn new_nodes<'a>(
    writer: &Connection,
    nodes: impl Iterator<Item = (&'a Key, &'a Node)>,
) -> duckdb::Result<()> {
    let mut nodes = nodes.peekable();
    if nodes.peek().is_none() {
        return Ok(());
    }
    let mut appender = writer.appender("nodes")?;
    for ((cluster, name), node) in nodes {
        appender.append_row(params![&**cluster, &**name, node.last_ns, node.last_ns, &*node.resource])?;
    }
    appender.flush()
}

fn known_again<'a>(
    writer: &Connection,
    nodes: impl Iterator<Item = (&'a Key, &'a Node)>,
) -> duckdb::Result<()> {
    writer.execute_batch("DELETE FROM spoken")?;
    let mut appender = writer.appender_to_catalog_and_db("spoken", "temp", "main")?;
    for ((cluster, name), node) in nodes {
        appender.append_row(params![&**cluster, &**name, node.last_ns, &*node.resource])?;
    }
    appender.flush()?;
    drop(appender);
    writer.execute_batch(
        "UPDATE nodes SET last_seen_ns = spoken.last_seen_ns, resource = spoken.resource FROM spoken \
         WHERE nodes.cluster_id = spoken.cluster_id AND nodes.node_id = spoken.node_id",
    )
}

fn events(writer: &Connection, group: &[&Batch]) -> duckdb::Result<()> {
    let mut appender = writer.appender("events")?;
    let rows = group.iter().flat_map(|batch| batch.events.iter().map(|row| (row, batch.sender)));
    columns::append(&mut appender, rows)?;
    appender.flush()
}

fn collectives(writer: &Connection, group: &[&Batch]) -> duckdb::Result<()> {
    let mut appender = writer.appender("collectives")?;
    let rows = group.iter().flat_map(|batch| batch.collectives.iter().map(|row| (row, batch.sender)));
    for (row, sender) in rows {
        let Collective { start_ns, duration_ns, origin, comm_id_hash, seq, op, .. } = row;
        appender.append_row(params![
            start_ns,
            duration_ns,
            &*origin.cluster,
            &*origin.node,
            origin.job.as_deref(),
            &**comm_id_hash,
            seq,
            &**op,
            origin.rank,
            origin.nranks,
            row.comm_rank,
            row.comm_nranks,
            row.peer,
            row.count,
            row.datatype.as_deref(),
            row.reduce_op.as_deref(),
            row.pid,
            row.tid,
            sender,
        ])?;
    }
    appender.flush()
}

fn findings(writer: &Connection, group: &[&Batch]) -> duckdb::Result<()> {
    let mut appender = writer.appender("findings")?;
    let rows = group.iter().flat_map(|batch| batch.findings.iter().map(|row| (row, batch.sender)));
    for (row, sender) in rows {
        let Found { timestamp_ns, origin, source, class, severity, title, pid, finding } = row;
        appender.append_row(params![
            timestamp_ns,
            &*origin.cluster,
            &*origin.node,
            origin.job.as_deref(),
            origin.rank,
            source,
            class.as_deref(),
            severity.as_deref(),
            &**title,
            pid,
            finding.as_deref(),
            sender,
        ])?;
    }
    appender.flush()
}
