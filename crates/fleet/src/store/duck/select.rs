//! Rows of a filter, and the typed questions made of them.

use super::DuckStore;
use crate::point::{Collective, Origin};
use crate::store::{BlameShare, Filter, RankValue, Reach, Stop, StoreError};
use duckdb::params_from_iter;
use duckdb::types::Value as Duck;
use std::sync::Arc;

pub(super) fn marks(count: usize) -> String {
    match count {
        // Of no cluster there are no rows.
        0 => "NULL".into(),
        count => vec!["?"; count].join(", "),
    }
}

/// Its WHERE, and the values in it.
pub(super) fn condition(filter: &Filter) -> (String, Vec<Duck>) {
    let mut parts = Vec::new();
    let mut values = Vec::new();
    if let Some(clusters) = &filter.clusters {
        parts.push(format!("cluster_id IN ({})", marks(clusters.len())));
        values.extend(clusters.iter().cloned().map(Duck::Text));
    }
    let texts = [
        ("node_id", &filter.node),
        ("metric_name", &filter.metric),
        ("job_id", &filter.job),
        ("comm_id_hash", &filter.comm_id_hash),
    ];
    for (column, wanted) in texts {
        if let Some(text) = wanted {
            parts.push(format!("{column} = ?"));
            values.push(Duck::Text(text.clone()));
        }
    }
    if let Some(rank) = filter.rank {
        parts.push("rank = ?".into());
        values.push(Duck::Int(rank));
    }
    for (comparison, bound) in [(">=", filter.from_ns), ("<", filter.to_ns)] {
        if let Some(bound) = bound {
            parts.push(format!("timestamp_ns {comparison} ?"));
            values.push(Duck::BigInt(bound));
        }
    }
    match parts.is_empty() {
        true => (String::new(), values),
        false => (format!(" WHERE {}", parts.join(" AND ")), values),
    }
}

impl DuckStore {
    pub(super) fn ranks_of(&self, filter: &Filter, stop: &Stop) -> Result<Vec<RankValue>, StoreError> {
        let (condition, values) = condition(filter);
        let sql = format!(
            "SELECT cluster_id, node_id, job_id, rank, max(nranks), median(value), avg(value), count(*), min(timestamp_ns), \
             max(timestamp_ns) FROM (SELECT *, coalesce(value_double, value_int::DOUBLE) AS value FROM events{condition}) \
             WHERE isfinite(value) GROUP BY ALL ORDER BY cluster_id, job_id, rank, node_id LIMIT 1000000"
        );
        self.read(Reach::default().time, stop, |connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), |row| {
                Ok(RankValue {
                    cluster: row.get(0)?,
                    node: row.get(1)?,
                    job: row.get(2)?,
                    rank: row.get(3)?,
                    nranks: row.get(4)?,
                    median: row.get(5)?,
                    mean: row.get(6)?,
                    points: row.get(7)?,
                    first_ns: row.get(8)?,
                    last_ns: row.get(9)?,
                })
            })?;
            rows.collect()
        })
    }

    pub(super) fn blame_of(&self, filter: &Filter, stop: &Stop) -> Result<Vec<BlameShare>, StoreError> {
        let filter = Filter { metric: Some("gpuwhy.rank.blame_ratio".into()), ..filter.clone() };
        let (condition, values) = condition(&filter);
        let sql = format!(
            "SELECT cluster_id, job_id, rank, regexp_extract(attrs, '\"class\":\"([^\"]*)\"', 1) AS class, \
             avg(value_double) AS share FROM events{condition} GROUP BY ALL HAVING share IS NOT NULL LIMIT 1000000"
        );
        self.read(Reach::default().time, stop, |connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), |row| {
                let class: Option<String> = row.get(3)?;
                Ok(BlameShare {
                    cluster: row.get(0)?,
                    job: row.get(1)?,
                    rank: row.get(2)?,
                    class: class.unwrap_or_default(),
                    share: row.get(4)?,
                })
            })?;
            rows.collect()
        })
    }

    /// A call that was told while it ran is told again when it ended: the longer row is the truth.
    pub(super) fn collectives_of(
        &self,
        filter: &Filter,
        most: usize,
        stop: &Stop,
    ) -> Result<Vec<Collective>, StoreError> {
        let filter = Filter { metric: None, ..filter.clone() };
        let (condition, values) = condition(&filter);
        let sql = format!(
            "SELECT * FROM (SELECT min(timestamp_ns) AS start_ns, max(duration_ns), cluster_id, node_id, job_id, comm_id_hash, seq, op, \
             rank, max(nranks), count, datatype, reduce_op, max(pid), max(tid), comm_rank, comm_nranks, peer \
             FROM collectives{condition} GROUP BY cluster_id, node_id, job_id, comm_id_hash, seq, op, rank, comm_rank, comm_nranks, \
             peer, count, datatype, reduce_op, if(seq IS NULL, timestamp_ns, NULL) \
             ORDER BY start_ns DESC LIMIT {most}) ORDER BY start_ns"
        );
        self.read(Reach::default().time, stop, |connection| {
            let mut statement = connection.prepare(&sql)?;
            let text = |text: Option<String>| text.map(Arc::<str>::from);
            let rows = statement.query_map(params_from_iter(values), |row| {
                let shared = |index| row.get::<_, String>(index).map(Arc::<str>::from);
                Ok(Collective {
                    start_ns: row.get(0)?,
                    duration_ns: row.get(1)?,
                    origin: Origin {
                        cluster: shared(2)?,
                        node: shared(3)?,
                        job: text(row.get(4)?),
                        rank: row.get(8)?,
                        nranks: row.get(9)?,
                    },
                    comm_id_hash: shared(5)?,
                    seq: row.get(6)?,
                    op: shared(7)?,
                    count: row.get(10)?,
                    datatype: text(row.get(11)?),
                    reduce_op: text(row.get(12)?),
                    pid: row.get(13)?,
                    tid: row.get(14)?,
                    comm_rank: row.get(15)?,
                    comm_nranks: row.get(16)?,
                    peer: row.get(17)?,
                })
            })?;
            rows.collect()
        })
    }
}
