//! What is in this file: Ingero's tables have gained columns with its versions, and are read by their names.

use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};

use super::kinds;

/// Whether a file is one of Ingero's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Ingero,
    /// It has tables that only Ingero makes, but lacks what every file of its has.
    Half(String),
    Other,
}

/// Tables that no other program is known to make in this way; every version has some of them.
const MARKS: [&str; 5] =
    ["causal_chains", "system_snapshots", "event_aggregates", "stack_traces", "schema_info"];

/// Columns of `events` in every version.
const ALWAYS: [&str; 8] = ["timestamp", "pid", "tid", "source", "op", "duration", "arg0", "arg1"];

/// Looks at the names of tables and columns only.
pub(crate) fn look(db: &Connection) -> rusqlite::Result<Look> {
    let tables = tables(db)?;
    let marks = MARKS.iter().filter(|mark| tables.contains_key(**mark)).count();
    Ok(match tables.get("events") {
        Some(columns) => match ALWAYS.iter().find(|column| !columns.contains(**column)) {
            None if marks > 0 => Look::Ingero,
            Some(column) if marks > 1 => Look::Half(format!("its column events.{column} is missing")),
            _ => Look::Other,
        },
        None if marks > 1 => Look::Half("its table events is missing".into()),
        None => Look::Other,
    })
}

#[derive(Debug)]
pub(super) struct Shape {
    pub(super) tables: BTreeMap<String, BTreeSet<String>>,
    /// As the file says; empty where it does not.
    pub(super) schema: String,
    /// Source and operation of all rows.
    pub(super) kinds: BTreeSet<(i64, i64)>,
    /// Those of the sums over all calls, stored or not; empty where there are none.
    pub(super) summed: BTreeSet<(i64, i64)>,
    pub(super) sessions: Vec<i64>,
    /// Rows of several nodes.
    pub(super) is_merged: bool,
    pub(super) has_stacks: bool,
    pub(super) has_chains: bool,
}

impl Shape {
    pub(super) fn of(db: &Connection) -> rusqlite::Result<Shape> {
        let tables = tables(db)?;
        let has = |table: &str, column: &str| tables.get(table).is_some_and(|own| own.contains(column));
        let any = |table: &str| -> rusqlite::Result<bool> {
            let there = tables.contains_key(table);
            Ok(there && db.prepare(&format!("SELECT 1 FROM main.{table} LIMIT 1"))?.exists([])?)
        };
        let schema = match has("schema_info", "value") {
            true => db
                .query_row("SELECT value FROM main.schema_info WHERE key = 'version'", [], |row| row.get(0))
                .optional()?
                .unwrap_or_default(),
            false => String::new(),
        };
        let kinds = match indexed(db, &["source", "op"])? {
            true => loose_kinds(db)?,
            false => pairs(db, "SELECT DISTINCT source, op FROM main.events")?,
        };
        let summed = match has("event_aggregates", "sum_dur") {
            true => pairs(db, "SELECT DISTINCT source, op FROM main.event_aggregates")?,
            false => BTreeSet::new(),
        };
        let sessions = match has("sessions", "started_at") && has("sessions", "id") {
            true => numbers(db, "SELECT id FROM main.sessions ORDER BY id")?,
            false => Vec::new(),
        };
        // A merged file has sessions of all its nodes.
        let is_merged = has("sessions", "node")
            && db.query_row("SELECT count(DISTINCT node) > 1 FROM main.sessions", [], |row| row.get(0))?;
        Ok(Shape {
            schema,
            kinds,
            sessions,
            summed,
            is_merged,
            has_stacks: any("stack_traces")?,
            has_chains: any("causal_chains")?,
            tables,
        })
    }

    pub(super) fn has(&self, table: &str, column: &str) -> bool {
        self.tables.get(table).is_some_and(|columns| columns.contains(column))
    }

    pub(super) fn has_sums(&self) -> bool {
        !self.summed.is_empty()
    }

    pub(super) fn has_kind(&self, kind: (i64, i64)) -> bool {
        self.kinds.contains(&kind)
    }

    /// A column of `events e`; NULL where this file is too old for it.
    pub(super) fn event(&self, column: &str) -> String {
        if self.has("events", column) { format!("e.{column}") } else { "NULL".into() }
    }

    /// How the file calls an operation that we do not know.
    pub(super) fn name(&self, db: &Connection, source: i64, op: i64) -> rusqlite::Result<String> {
        let named = match self.has("ops", "source_id") {
            true => db
                .query_row(
                    "SELECT name FROM main.ops WHERE source_id = ? AND op_id = ?",
                    [source, op],
                    |row| row.get(0),
                )
                .optional()?,
            false => None,
        };
        Ok(named.unwrap_or_else(|| format!("source {source} op {op}")))
    }

    /// Processes that have rows.
    pub(super) fn pids(db: &Connection) -> rusqlite::Result<Vec<i64>> {
        match indexed(db, &["pid"])? {
            true => loose(db, "SELECT min(pid) FROM main.events WHERE pid > ?"),
            false => numbers(db, "SELECT DISTINCT pid FROM main.events"),
        }
    }

    /// Kinds of rows that are in none of our tables.
    pub(super) fn unknown(&self) -> Vec<(i64, i64)> {
        let known = |kind: &(i64, i64)| {
            kinds::CALLS.contains(&kind.0) || kinds::KINDS.iter().any(|one| (one.source, one.op) == *kind)
        };
        self.kinds.iter().filter(|kind| !known(kind)).copied().collect()
    }
}

// SQLite reads all of an index to find the distinct values in it. These jump from one to the next, so that opening a
// file of gigabytes takes no longer than a small one.

/// Source and operation of all rows.
fn loose_kinds(db: &Connection) -> rusqlite::Result<BTreeSet<(i64, i64)>> {
    let mut kinds = BTreeSet::new();
    let mut op = db.prepare("SELECT min(op) FROM main.events WHERE source = ? AND op > ?")?;
    for source in loose(db, "SELECT min(source) FROM main.events WHERE source > ?")? {
        let mut last = i64::MIN;
        // A damaged index may give what it was not asked for, without end.
        while let Some(next) =
            op.query_row([source, last], |row| row.get::<_, Option<i64>>(0))?.filter(|next| *next > last)
        {
            kinds.insert((source, next));
            last = next;
        }
    }
    Ok(kinds)
}

/// All values of a column, of which the statement gives the one that follows.
fn loose(db: &Connection, sql: &str) -> rusqlite::Result<Vec<i64>> {
    let mut statement = db.prepare(sql)?;
    let mut values: Vec<i64> = Vec::new();
    loop {
        let last = values.last().copied().unwrap_or(i64::MIN);
        match statement.query_row([last], |row| row.get::<_, Option<i64>>(0))? {
            Some(next) if next > last => values.push(next),
            // At the end, or where a damaged index gives what it was not asked for.
            _ => return Ok(values),
        }
    }
}

fn tables(db: &Connection) -> rusqlite::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut statement = db.prepare(
        "SELECT m.name, i.name FROM main.sqlite_master m, pragma_table_info(m.name) i \
         WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let mut rows = statement.query([])?;
    let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
    while let Some(row) = rows.next()? {
        tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
    }
    Ok(tables)
}

/// Whether an index of `events` begins with these columns.
fn indexed(db: &Connection, columns: &[&str]) -> rusqlite::Result<bool> {
    let mut statement = db.prepare(
        "SELECT l.name, i.name FROM pragma_index_list('events', 'main') l, pragma_index_info(l.name, 'main') i \
         WHERE l.partial = 0 ORDER BY l.name, i.seqno",
    )?;
    let mut rows = statement.query([])?;
    let mut indexes = BTreeMap::<String, Vec<Option<String>>>::new();
    while let Some(row) = rows.next()? {
        indexes.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    let begins = |own: &Vec<Option<String>>| {
        columns.len() <= own.len() && columns.iter().zip(own).all(|(a, b)| b.as_deref() == Some(a))
    };
    Ok(indexes.values().any(begins))
}

fn pairs(db: &Connection, sql: &str) -> rusqlite::Result<BTreeSet<(i64, i64)>> {
    db.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn numbers(db: &Connection, sql: &str) -> rusqlite::Result<Vec<i64>> {
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}
