//! Statements of users and assistants: one at a time, read only, bounded in rows, bytes and time.

use super::{Reader, Value, guard};
use crate::StoreError;
use rusqlite::types::ValueRef;
use rusqlite::{Error, ErrorCode, params_from_iter};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Limits {
    pub rows: usize,
    pub time: Duration,
    /// Of all values of the answer together, a few bytes for each value included.
    pub bytes: usize,
    /// Of the temporary files that sorting takes.
    pub spill: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // As many temporary files as sums over tens of millions of rows need.
        Limits { rows: 10_000, time: Duration::from_secs(30), bytes: 64 << 20, spill: 2 << 30 }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// There was more than the limits allow.
    pub truncated: bool,
}

impl Reader {
    /// Runs a statement as the user wrote it, in a process of its own where [`Reader::answer_in`] names one.
    pub fn sql(&self, sql: &str, limits: &Limits) -> Result<Answer, StoreError> {
        match &self.worker {
            Some(worker) => worker.answer(self.file(), sql, limits, &self.deadline.stop()),
            None => self.limited(sql, None, limits),
        }
    }

    /// Runs a statement of ours, with the user's values in its place holders.
    pub fn select(&self, sql: &str, values: &[Value], limits: &Limits) -> Result<Answer, StoreError> {
        // Our statements are right, so it is the file that is wrong.
        self.limited(sql, Some(values), limits).map_err(|error| match error {
            StoreError::Sql(why) => StoreError::Damaged { path: self.path.clone(), why },
            other => other,
        })
    }

    /// The same, one row at a time: of what would not fit into memory.
    pub fn select_each(
        &self,
        sql: &str,
        values: &[Value],
        mut visit: impl FnMut(&[Value]),
    ) -> Result<(), StoreError> {
        let mut row_values: Vec<Value> = Vec::new();
        self.each(
            sql,
            params_from_iter(values),
            |row| {
                row_values.clear();
                for at in 0..row.as_ref().column_count() {
                    row_values.push(owned(row.get_ref(at)?));
                }
                visit(&row_values);
                Ok(())
            },
            |()| {},
        )
    }

    fn limited(&self, sql: &str, values: Option<&[Value]>, limits: &Limits) -> Result<Answer, StoreError> {
        self.deadline.set(limits.time, limits.spill);
        let answer = self.run(sql, values, limits);
        self.deadline.clear();
        answer
    }

    fn run(&self, sql: &str, values: Option<&[Value]>, limits: &Limits) -> Result<Answer, StoreError> {
        let fail = |error| self.explain(error, limits);
        let mut statement = self.db.prepare(sql).map_err(fail)?;
        if !statement.readonly() {
            return Err(StoreError::ReadOnly);
        }
        if statement.column_count() == 0 {
            return Err(StoreError::Sql("there is no statement in it; write a SELECT".into()));
        }
        if values.is_none() && statement.parameter_count() > 0 {
            return Err(StoreError::Sql("it has a place holder (? or :name) without a value".into()));
        }
        let columns: Vec<String> = statement.column_names().map(String::from).collect();
        let width = columns.len();
        let mut answer = Answer { columns, ..Answer::default() };
        let mut room = limits.bytes;
        let mut rows = statement.query(params_from_iter(values.unwrap_or_default())).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            // What does not fit is not even copied.
            let mut left = Some(room).filter(|_| answer.rows.len() < limits.rows);
            for at in 0..width {
                let bytes = size(row.get_ref(at).map_err(fail)?);
                left = left.and_then(|left| left.checked_sub(bytes));
                if left.is_none() {
                    break;
                }
            }
            let Some(left) = left else {
                answer.truncated = true;
                break;
            };
            room = left;
            let values = (0..width).map(|at| row.get_ref(at).map(owned)).collect::<Result<_, _>>();
            answer.rows.push(values.map_err(fail)?);
        }
        Ok(answer)
    }

    /// The engine's error as a sentence about the statement, or about the file.
    fn explain(&self, error: Error, limits: &Limits) -> StoreError {
        let message = match &error {
            Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg)) => msg.clone(),
            Error::MultipleStatement => "there is more than one statement; give them one at a time".into(),
            other => other.to_string(),
        };
        // Refused functions come as plain errors.
        if let Some((_, function)) = message.split_once("not authorized to use function: ") {
            return StoreError::Function(function.into());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if self.deadline.is_stopped() => StoreError::Stopped,
            Some(ErrorCode::OperationInterrupted) if self.deadline.has_spilled() => {
                StoreError::TooLarge(limits.spill)
            }
            Some(ErrorCode::OperationInterrupted) => StoreError::TooSlow(limits.time),
            Some(ErrorCode::AuthorizationForStatementDenied) => StoreError::ReadOnly,
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly,
            Some(ErrorCode::OutOfMemory) => StoreError::TooMuchMemory(guard::HEAP),
            Some(ErrorCode::TooBig) => {
                StoreError::Sql(format!("it makes a value of more than {} MiB", guard::LARGEST_VALUE >> 20))
            }
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy,
            ) => self.fail(error),
            _ if message.starts_with("no such table") || message.starts_with("no such column") => {
                StoreError::Sql(format!("{message}; `SELECT * FROM schema_doc` lists what there is"))
            }
            _ => StoreError::Sql(message),
        }
    }
}

pub(super) fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        // Names of processes and files are bytes to the kernel; what is not text is shown as such.
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// As a value is stored: what it is, and its bytes.
fn size(value: ValueRef<'_>) -> usize {
    16 + match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}
