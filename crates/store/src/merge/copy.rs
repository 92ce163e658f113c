//! The rows of one file after the other, into the merged one.

use super::clocks::Clock;
use super::numbers::Numbered;
use super::processes::Processes;
use super::rewrite::{self, Numbers, Rewrite};
use super::stacks::Stacks;
use super::{GoOn, MergeError, MergedFile};
use crate::schema::calls::{LIBRARIES, OPS};
use crate::schema::merged::MERGED;
use crate::schema::{TABLES, Table};
use crate::{Reader, StoreError};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, params};
use std::path::Path;

/// Rows between two looks whether somebody wants to stop.
const ROWS_A_LOOK: u64 = 4096;

/// Tables that a new file has filled by itself, and those whose rows get numbers of their own beforehand.
const NOT_COPIED: [&str; 5] = ["ops", "libraries", "hist_buckets", "schema_doc", "merged"];

pub(super) struct Output<'a> {
    db: &'a Connection,
    path: &'a Path,
    go_on: &'a GoOn<'a>,
    ops: Numbered,
    libraries: Numbered,
    stacks: Stacks,
    processes: Processes,
    last_session: i64,
    rows: u64,
}

impl<'a> Output<'a> {
    pub(super) fn new(db: &'a Connection, path: &'a Path, go_on: &'a GoOn<'a>) -> Output<'a> {
        Output {
            db,
            path,
            go_on,
            // By name and layer; by kind and file.
            ops: Numbered::new(&OPS, 2),
            libraries: Numbered::new(&LIBRARIES, 2),
            stacks: Stacks::default(),
            processes: Processes::default(),
            last_session: 0,
            rows: 0,
        }
    }

    pub(super) fn add(&mut self, reader: &Reader, clock: Clock) -> Result<MergedFile, MergeError> {
        let session = self.last_session;
        let processes = Processes::of(reader, clock.shift_ns)?;
        let shift = self.processes.shift(&processes)?;
        self.processes.add(processes, &shift);
        let numbers = Numbers {
            clock_shift_ns: clock.shift_ns,
            session,
            ops: self.ops.add(reader, self.db, self.path, session)?,
            libraries: self.libraries.add(reader, self.db, self.path, session)?,
            stacks: self.stacks.add(reader, &shift)?,
            shift,
        };
        let before = self.rows;
        for table in TABLES.iter().filter(|table| !NOT_COPIED.contains(&table.name)) {
            self.table(reader, table, &numbers)?;
        }
        let merged = MergedFile {
            file: reader.path().into(),
            nodes: nodes(reader)?,
            rows: self.rows - before,
            clock,
            pid_shift: numbers.shift.by,
            pids_shifted: numbers.shift.pids.len(),
        };
        self.note(reader, &merged, session)?;
        Ok(merged)
    }

    fn table(&mut self, reader: &Reader, table: &Table, numbers: &Numbers) -> Result<(), MergeError> {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let rewrites = rewrite::of(table);
        let stack = match table.name {
            "stacks" | "frames" => rewrites.iter().position(|rewrite| *rewrite == Rewrite::Stack),
            _ => None,
        };
        let fail = |error| MergeError::Store(StoreError::at(self.path, error));
        let mut insert = self.db.prepare(&insert_sql(table)).map_err(fail)?;
        let sql = format!("SELECT {} FROM {}", names.join(", "), table.name);
        reader.stream::<MergeError>(&sql, &[], |record| {
            self.rows += 1;
            if self.rows.is_multiple_of(ROWS_A_LOOK) && !(self.go_on)(self.rows) {
                return Err(MergeError::Interrupted);
            }
            if stack.and_then(|at| record.integer(at)).is_some_and(|id| numbers.stacks.is_known(id)) {
                return Ok(());
            }
            let mut bind = || -> rusqlite::Result<()> {
                for (at, rewrite) in rewrites.iter().enumerate() {
                    let value = match rewrite {
                        Rewrite::Keep => None,
                        rewrite => numbers.value(*rewrite, &record, at),
                    };
                    let value = match value {
                        Some(value) => ToSqlOutput::Owned(value),
                        None => ToSqlOutput::Borrowed(record.value(at)),
                    };
                    insert.raw_bind_parameter(at + 1, value)?;
                }
                insert.raw_execute().map(drop)
            };
            bind().map_err(fail)
        })
    }

    /// What was done, by session; what an earlier merge did stays part of it.
    fn note(&mut self, reader: &Reader, merged: &MergedFile, session: i64) -> Result<(), MergeError> {
        let sql = "SELECT s.session_id, m.file, ifnull(m.clock_shift_ns, 0), m.clock_error_ns, m.clock_source, \
                   m.clock_collectives, ifnull(m.pid_shift, 0), ifnull(m.pids_shifted, 0) FROM sessions s \
                   LEFT JOIN merged m ON m.session_id = s.session_id ORDER BY 1";
        let name = reader.path().file_name().unwrap_or(reader.path().as_os_str()).to_string_lossy();
        let clock = merged.clock;
        reader.stream::<MergeError>(sql, &[], |record| {
            let number = |at: usize| record.integer(at).unwrap_or(0);
            self.last_session = self.last_session.max(number(0).saturating_add(session));
            let earlier = record.text(1);
            // A file whose own clocks disagree stays so; else both errors count.
            let unknown = record.text(4).as_deref() == Some("none");
            let error = clock.error_ns.filter(|_| !unknown).map(|ns| ns.saturating_add(number(3)));
            let source = if unknown { "none" } else { clock.source.name() };
            self.db
                .execute(
                    &MERGED.insert_sql("INSERT", 1),
                    params![
                        number(0).saturating_add(session),
                        earlier.as_deref().unwrap_or(&name),
                        number(2).saturating_add(clock.shift_ns),
                        error,
                        source,
                        number(5).saturating_add(clock.collectives as i64),
                        // Of the later one, if it did anything: the last seven digits are those of the first file.
                        if merged.pids_shifted > 0 { merged.pid_shift } else { number(6) },
                        (merged.pids_shifted as i64).max(number(7)),
                    ],
                )
                .map_err(|error| StoreError::at(self.path, error))?;
            Ok(())
        })
    }
}

/// Rows of one key are about the same thing: one process, traced twice on its host.
fn insert_sql(table: &Table) -> String {
    match table.name {
        // Counted anew by each trace.
        "kernels" => table.on_conflict(|column| match column {
            "launches" | "launch_ns" => {
                format!("{column} = ifnull(kernels.{column}, 0) + ifnull(excluded.{column}, 0)")
            }
            _ => format!("{column} = coalesce(kernels.{column}, excluded.{column})"),
        }),
        _ if table.key.is_empty() => table.insert_sql("INSERT", 1),
        _ => table.upsert_sql(),
    }
}

fn nodes(reader: &Reader) -> Result<Vec<String>, StoreError> {
    let mut nodes: Vec<String> = Vec::new();
    for session in reader.sessions()? {
        if !session.info.host.is_empty() && !nodes.contains(&session.info.host) {
            nodes.push(session.info.host);
        }
    }
    Ok(nodes)
}
