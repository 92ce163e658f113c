//! What most questions have in common: rows of one process or of all, of the last minutes or of the whole trace, so
//! many at most.

use crate::since::{first_window, from_ns, in_order, selection, stored};
use crate::{QueryError, Rows};
use gpuwhy_store::{Answer, Filter, Limits, Reader, Value};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    reader: &'a Reader,
    pid: Option<u32>,
    since: Option<&'a str>,
    pub(crate) from_ns: Option<u64>,
    pub(crate) to_ns: Option<u64>,
    /// A window that began before `from_ns` counts, too.
    in_part: bool,
    limits: Limits,
}

/// What there may be none of, and what to do then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) what: &'static str,
    pub(crate) hint: &'static str,
}

impl<'a> Chosen<'a> {
    pub(crate) fn new(
        reader: &'a Reader,
        pid: Option<u32>,
        since: Option<&'a str>,
        limit: Option<usize>,
    ) -> Result<Chosen<'a>, QueryError> {
        let mut limits = Limits::default();
        limits.rows = limit.unwrap_or(limits.rows);
        Ok(Chosen {
            reader,
            pid,
            since,
            from_ns: from_ns(reader, since)?,
            to_ns: None,
            in_part: false,
            limits,
        })
    }

    /// Only this time; `since` counts where both are given. Of sums, those of every window that lies in it in part.
    pub(crate) fn between(self, from: Option<u64>, to: Option<u64>) -> Result<Chosen<'a>, QueryError> {
        in_order(from, to)?;
        let in_part = self.from_ns.is_none();
        Ok(Chosen { from_ns: self.from_ns.or(from).map(stored), to_ns: to.map(stored), in_part, ..self })
    }

    /// As a WHERE clause on columns `pid` and `time`, and its values.
    pub(crate) fn clause(&self, time: &str) -> (String, Vec<Value>) {
        Filter { op: None, pid: self.pid, from_ns: self.first(time), to_ns: self.to_ns }.clause(time)
    }

    /// The time of the first row that counts, by the column that rows have it in.
    pub(crate) fn first(&self, time: &str) -> Option<u64> {
        match self.in_part && time == "window_start_ns" {
            true => self.from_ns.map(first_window),
            false => self.from_ns,
        }
    }

    /// The same where the clause goes on: there is always a condition.
    pub(crate) fn conditions(&self, time: &str) -> (String, Vec<Value>) {
        let (clause, values) = self.clause(time);
        (if clause.is_empty() { " WHERE true".into() } else { clause }, values)
    }

    pub(crate) fn select(&self, sql: &str, values: &[Value]) -> Result<Answer, QueryError> {
        Ok(self.reader.select(sql, values, &self.limits)?)
    }

    /// The rows of a statement, or that there are none.
    pub(crate) fn rows(&self, subject: Subject, sql: &str, values: &[Value]) -> Result<Rows, QueryError> {
        let answer = self.select(sql, values)?;
        self.answer(subject, answer)
    }

    pub(crate) fn answer(&self, subject: Subject, answer: Answer) -> Result<Rows, QueryError> {
        if answer.rows.is_empty() && self.limits.rows > 0 {
            return Err(self.nothing(subject));
        }
        Ok(Rows::new(answer, self.reader.coverage(self.from_ns)?))
    }

    pub(crate) fn nothing(&self, Subject { what, hint }: Subject) -> QueryError {
        let selection = selection(None, self.pid, self.since);
        QueryError::NoData(format!("the trace has no {what}{selection}; {hint}"))
    }

    /// Cuts rows that were not made by a statement.
    pub(crate) fn cut(&self, columns: &[&str], mut rows: Vec<Vec<Value>>) -> Answer {
        let truncated = rows.len() > self.limits.rows;
        rows.truncate(self.limits.rows);
        Answer { columns: columns.iter().map(ToString::to_string).collect(), rows, truncated }
    }
}

/// A column: the name of the process that has the number `pid` of this table or subquery; the last that had it.
pub(crate) fn process_of(table: &str) -> String {
    format!(
        "(SELECT p.comm FROM processes p WHERE p.pid = {table}.pid ORDER BY p.start_ns DESC LIMIT 1) AS process"
    )
}
