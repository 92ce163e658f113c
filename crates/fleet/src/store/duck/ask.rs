//! Asking: in a transaction that DuckDB itself holds to reading, for so long, for so many rows.

use super::schema::TABLES;
use super::value::{json, size};
use super::{DuckStore, select};
use crate::store::{Filter, Reach, Rows, Stop, StoreError};
use duckdb::types::Value as Duck;
use duckdb::{Connection, InterruptHandle, params_from_iter};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often it is looked whether a question is to end.
const TICK: Duration = Duration::from_millis(20);

impl DuckStore {
    /// Of a statement's rows, those of the filter.
    pub(super) fn select(
        &self,
        select: &str,
        filter: &Filter,
        order: &str,
        reach: Reach,
        stop: &Stop,
    ) -> Result<Rows, StoreError> {
        let (condition, values) = select::condition(filter);
        let sql = format!("{select}{condition}{order} LIMIT {}", reach.rows + 1);
        self.ask(&sql, values, reach, stop)
    }

    /// A statement of ours that sees of each table the rows of these clusters.
    pub(super) fn ours(
        &self,
        sql: &str,
        clusters: Option<&[String]>,
        reach: Reach,
        stop: &Stop,
    ) -> Result<Rows, StoreError> {
        let Some(clusters) = clusters else {
            return self.ask(
                &format!("SELECT * FROM ({sql}) LIMIT {}", reach.rows + 1),
                Vec::new(),
                reach,
                stop,
            );
        };
        let marks = select::marks(clusters.len());
        let views: Vec<String> = TABLES
            .iter()
            .map(|table| format!("{table} AS (SELECT * FROM main.{table} WHERE cluster_id IN ({marks}))"))
            .collect();
        let sql = format!("WITH {} SELECT * FROM ({sql}) LIMIT {}", views.join(", "), reach.rows + 1);
        let values = TABLES.iter().flat_map(|_| clusters.iter().map(|cluster| Duck::Text(cluster.clone())));
        self.ask(&sql, values.collect(), reach, stop)
    }

    pub(super) fn ask(
        &self,
        sql: &str,
        values: Vec<Duck>,
        reach: Reach,
        stop: &Stop,
    ) -> Result<Rows, StoreError> {
        ask(&self.reader()?, sql, values, reach, stop)
    }

    /// Runs what only reads, and ends it when its time is up or nobody waits for it.
    pub(super) fn read<T: Send>(
        &self,
        time: Duration,
        stop: &Stop,
        work: impl FnOnce(&Connection) -> duckdb::Result<T>,
    ) -> Result<T, StoreError> {
        read(&self.reader()?, time, stop, work)
    }
}

/// Somebody else's statement. `query` is DuckDB's own function for that: it takes one SELECT and nothing else, and the text is
/// a string to it, whatever stands in it.
pub(super) fn foreign(
    connection: &Connection,
    sql: &str,
    reach: Reach,
    stop: &Stop,
) -> Result<Rows, StoreError> {
    if sql.contains('\0') {
        return Err(StoreError::Sql("SQL has no NUL in it".into()));
    }
    let sql = sql.trim().trim_end_matches(';');
    let quoted = sql.replace('\'', "''");
    let sql = format!("SELECT * FROM query('{quoted}') LIMIT {}", reach.rows + 1);
    ask(connection, &sql, Vec::new(), reach, stop)
}

fn ask(
    connection: &Connection,
    sql: &str,
    values: Vec<Duck>,
    reach: Reach,
    stop: &Stop,
) -> Result<Rows, StoreError> {
    read(connection, reach.time, stop, |connection| {
        let mut statement = connection.prepare(sql)?;
        let mut found = statement.query(params_from_iter(values))?;
        let columns = found.as_ref().map(duckdb::Statement::column_names).unwrap_or_default();
        let mut rows = Rows { columns, ..Rows::default() };
        let mut bytes = 0;
        while let Some(row) = found.next()? {
            if rows.rows.len() >= reach.rows || bytes > reach.bytes {
                rows.truncated = true;
                break;
            }
            let row: Vec<_> = (0..rows.columns.len())
                .map(|index| row.get::<_, Duck>(index).map(json))
                .collect::<duckdb::Result<_>>()?;
            bytes += row.iter().map(size).sum::<usize>();
            rows.rows.push(row);
        }
        Ok(rows)
    })
}

fn read<T: Send>(
    connection: &Connection,
    time: Duration,
    stop: &Stop,
    work: impl FnOnce(&Connection) -> duckdb::Result<T>,
) -> Result<T, StoreError> {
    let (interrupt, began) = (connection.interrupt_handle(), Instant::now());
    let (done, is_done) = sync_channel::<()>(1);
    let answered = std::thread::scope(|scope| {
        scope.spawn(move || watch(&is_done, &interrupt, stop, began + time));
        let answered =
            connection.execute_batch("BEGIN TRANSACTION READ ONLY").and_then(|()| work(connection));
        drop(done);
        answered
    });
    answered.map_err(|error| match error.to_string().to_lowercase().contains("interrupt") {
        true if stop.is_stopped() => StoreError::Stopped,
        true => StoreError::Slow(time),
        false => StoreError::Sql(sentence(&error)),
    })
}

/// An interrupt that comes before a statement has begun is lost, so it is said until it is heard.
fn watch(is_done: &std::sync::mpsc::Receiver<()>, interrupt: &InterruptHandle, stop: &Stop, end: Instant) {
    while is_done.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if stop.is_stopped() || Instant::now() > end {
            interrupt.interrupt();
        }
    }
}

/// DuckDB's first line: the others draw where in the statement it is.
pub(super) fn sentence(error: &duckdb::Error) -> String {
    let message = match error {
        duckdb::Error::DuckDBFailure(_, Some(message)) => message.clone(),
        other => other.to_string(),
    };
    let mut lines = message.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or("DuckDB gave no reason").trim();
    first.chars().take(400).collect()
}
