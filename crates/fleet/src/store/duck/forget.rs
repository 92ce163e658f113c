//! Forgetting: what is too old, and of what is too much the oldest rows of those tokens that have more than their share, in those of
//! their clusters that have most. Room in the file is used again for new rows, after a checkpoint.

use super::Open;
use super::schema::AGING;
use crate::store::{Forgotten, Retention};
use duckdb::{Connection, params};
use std::collections::BTreeMap;

/// Of the time that the rows of a token in a cluster span, so much is given up at once where they are too many.
const SLICE: i64 = 20;
/// Of more rows than these, one in fifty tells how they are shared.
const MANY: i64 = 5_000_000;
/// Nodes that are forgotten at a time.
const NODES: usize = 1_000;

/// What a token has in a cluster.
struct Held {
    sender: u32,
    cluster: String,
    bytes: i64,
    oldest_ns: i64,
    newest_ns: i64,
}

/// And whether it was to make room.
pub(super) fn forget(open: &mut Open, now_ns: i64, keep: Retention) -> duckdb::Result<(Forgotten, bool)> {
    let age_ns = i64::try_from(keep.age.as_nanos()).unwrap_or(i64::MAX);
    let before_ns = now_ns.saturating_sub(age_ns);
    let mut rows = delete(&open.writer, before_ns)?;
    silent_nodes(open, before_ns)?;
    let writer = &open.writer;
    let is_for_room = used(writer)? > keep.bytes;
    if is_for_room {
        rows += delete_of(writer, &too_much(held(writer)?))?;
    }
    Ok((Forgotten { rows }, is_for_room))
}

/// Each token has the same share, whoever filled the store, and within it each of its clusters. Whoever has more names gets no more.
fn too_much(held: Vec<Held>) -> Vec<Held> {
    let mut by_sender = BTreeMap::<u32, Vec<Held>>::new();
    for held in held {
        by_sender.entry(held.sender).or_default().push(held);
    }
    let sum = |held: &Vec<Held>| held.iter().map(|held| held.bytes).sum::<i64>();
    let share = by_sender.values().map(sum).sum::<i64>() / by_sender.len().max(1) as i64;
    let many = by_sender.into_values().filter(|held| sum(held) >= share);
    let of_one = |held: Vec<Held>| {
        let share = sum(&held) / held.len().max(1) as i64;
        held.into_iter().filter(move |held| held.bytes >= share)
    };
    many.flat_map(of_one).collect()
}

fn delete(writer: &Connection, before_ns: i64) -> duckdb::Result<u64> {
    let mut rows = 0;
    for table in AGING {
        rows += writer.execute(&format!("DELETE FROM {table} WHERE timestamp_ns < ?"), [before_ns])? as u64;
    }
    Ok(rows)
}

/// The oldest of each, in one pass over each table: a token may have a thousand names.
fn delete_of(writer: &Connection, too_much: &[Held]) -> duckdb::Result<u64> {
    writer.execute_batch("DELETE FROM given_up")?;
    let mut appender = writer.appender_to_catalog_and_db("given_up", "temp", "main")?;
    for held in too_much {
        let before_ns = held.oldest_ns + (held.newest_ns - held.oldest_ns) / SLICE + 1;
        appender.append_row(params![held.sender, held.cluster, before_ns])?;
    }
    appender.flush()?;
    drop(appender);
    let mut rows = 0;
    for table in AGING {
        let sql = format!(
            "DELETE FROM {table} USING given_up WHERE {table}.sender = given_up.sender \
             AND {table}.cluster_id = given_up.cluster_id AND timestamp_ns < before_ns"
        );
        rows += writer.execute(&sql, [])? as u64;
    }
    Ok(rows)
}

/// Nodes that have not spoken since then.
fn silent_nodes(open: &mut Open, before_ns: i64) -> duckdb::Result<()> {
    let silent = open.nodes.iter().filter(|(_, node)| node.last_ns < before_ns);
    let silent: Vec<_> = silent.map(|(key, _)| key.clone()).take(NODES).collect();
    for key in silent {
        let sql = "DELETE FROM nodes WHERE cluster_id = ? AND node_id = ?";
        open.writer.execute(sql, params![&*key.0, &*key.1])?;
        open.nodes.remove(&key);
    }
    Ok(())
}

/// About how much each token has in each cluster, as far as it matters for who has more.
fn held(writer: &Connection) -> duckdb::Result<Vec<Held>> {
    let rows: i64 = writer.query_row("SELECT count(*) FROM events", [], |row| row.get(0))?;
    let sample = if rows > MANY { "USING SAMPLE 2% (system)" } else { "" };
    let sql = format!(
        "SELECT sender, cluster_id, sum(bytes)::BIGINT, min(timestamp_ns), max(timestamp_ns) FROM (\
         SELECT sender, cluster_id, timestamp_ns, 64 + coalesce(strlen(attrs), 0) AS bytes FROM events {sample} UNION ALL \
         SELECT sender, cluster_id, timestamp_ns, 96 FROM collectives {sample} UNION ALL \
         SELECT sender, cluster_id, timestamp_ns, 256 + coalesce(strlen(finding), 0) FROM findings) GROUP BY ALL"
    );
    let mut statement = writer.prepare(&sql)?;
    let held = statement.query_map([], |row| {
        Ok(Held {
            sender: row.get(0)?,
            cluster: row.get(1)?,
            bytes: row.get(2)?,
            oldest_ns: row.get(3)?,
            newest_ns: row.get(4)?,
        })
    })?;
    held.collect()
}

/// Bytes of the file that hold something, and of the log beside it.
fn used(writer: &Connection) -> duckdb::Result<u64> {
    let (block, blocks): (i64, i64) = writer.query_row(
        "SELECT block_size, used_blocks FROM pragma_database_size() WHERE database_name = current_database()",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(u64::try_from(block.saturating_mul(blocks)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{batch, count, event, open};
    use crate::journal::Position;
    use crate::point::Batch;
    use crate::store::{Filter, Reach, Retention, Sink, Stop, Store};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_cluster_that_fills_the_store_loses_its_own_oldest_rows_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let rows = |cluster: &'static str, times: std::ops::Range<i64>| {
            times.map(move |at| event(cluster, 0, at, 0.0)).collect()
        };
        store
            .write(&[&batch(1, rows("b", 0..100)), &batch(2, rows("a", 1_000..3_000))], Position::default())
            .unwrap();
        store.with(|open| open.writer.execute_batch("CHECKPOINT")).unwrap();
        let little = Retention { age: Duration::from_secs(1), bytes: 1 };
        let mut forgotten = 0;
        for _ in 0..5 {
            forgotten += store.forget(3_000, little).unwrap().rows;
        }
        assert!((300..600).contains(&forgotten), "{forgotten}");
        let rows = store
            .sql(
                "SELECT cluster_id, count(*) FROM events GROUP BY ALL ORDER BY ALL",
                Reach::default(),
                &Stop::default(),
            )
            .unwrap();
        assert_eq!(rows.rows, [vec![json!("a"), json!(2_000 - forgotten)], vec![json!("b"), json!(100)]]);
    }

    /// One that may push to all clusters, to its own thousand names and to those of another.
    #[test]
    fn a_token_that_fills_the_store_under_many_names_loses_its_own_rows_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let rows = |cluster: &str, times: std::ops::Range<i64>| -> Vec<_> {
            times.map(|at| event(cluster, 0, at, 0.0)).collect()
        };
        let of = |sender: u32, id: i128, events| Batch { sender, ..batch(id, events) };
        let invented = (0..1_000).flat_map(|name| rows(&format!("name-{name}"), 0..5)).collect();
        let group = [of(1, 1, rows("b", 0..900)), of(2, 2, invented), of(2, 3, rows("b", 0..900))];
        store.write(&group.each_ref(), Position::default()).unwrap();
        store.with(|open| open.writer.execute_batch("CHECKPOINT")).unwrap();
        let little = Retention { age: Duration::from_secs(1), bytes: 1 };
        let forgotten: u64 = (0..3).map(|_| store.forget(3_000, little).unwrap().rows).sum();
        let by_sender = "SELECT sender, count(*) FROM events GROUP BY ALL ORDER BY ALL";
        let rows = store.sql(by_sender, Reach::default(), &Stop::default()).unwrap();
        assert!(forgotten > 0);
        assert_eq!(rows.rows, [vec![json!(1), json!(900)], vec![json!(2), json!(5_900 - forgotten)]]);
    }

    #[test]
    fn nodes_that_have_not_spoken_for_as_long_as_rows_are_kept_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        store
            .write(&[&batch(1, vec![event("a", 0, 10, 0.0), event("a", 4, 900, 0.0)])], Position::default())
            .unwrap();
        let keep = Retention { age: Duration::from_nanos(500), bytes: u64::MAX };
        store.forget(1_000, keep).unwrap();
        let nodes = store.nodes(&Filter::default(), Reach::default(), &Stop::default()).unwrap().objects();
        assert_eq!(nodes.iter().map(|node| &node["node_id"]).collect::<Vec<_>>(), ["a-node1"]);
        // It is as new when it speaks again.
        store.write(&[&batch(2, vec![event("a", 0, 1_000, 0.0)])], Position::default()).unwrap();
        assert_eq!(count(&store, "nodes"), 2);
    }
}
