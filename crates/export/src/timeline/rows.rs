//! Rows of other tables than `calls`, told by what their columns are called: a new table needs nothing here.

use super::Arg;
use crate::text::{VALUE, clean};
use gpuwhy_store::schema::Table;
use gpuwhy_store::{Record, ValueRef};
use std::borrow::Cow;

/// Where in a row of a table things are.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) layer: &'static str,
    name: Option<usize>,
    pub(super) duration: Option<usize>,
    pub(super) pid: Option<usize>,
    pub(super) tid: Option<usize>,
    pub(super) stack: Option<usize>,
    pub(super) by_pid: Option<usize>,
    pub(super) by_tid: Option<usize>,
    /// What is said beside name and time.
    others: Vec<(usize, &'static str)>,
}

/// What has a place of its own.
const SHOWN: [&str; 6] = ["timestamp_ns", "duration_ns", "pid", "tid", "stack_id", "session_id"];

impl Columns {
    pub(super) fn of(table: &'static Table) -> Columns {
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        // As in the `events` view: an event goes by its own name.
        let name = place("event").or_else(|| place("op"));
        let others = table.columns.iter().enumerate();
        Columns {
            layer: table.layer.unwrap_or(table.name),
            name,
            duration: place("duration_ns"),
            pid: place("pid"),
            tid: place("tid"),
            stack: place("stack_id"),
            by_pid: place("by_pid"),
            by_tid: place("by_tid"),
            others: others
                .filter(|(at, column)| Some(*at) != name && !SHOWN.contains(&column.name))
                .map(|(at, column)| (at, column.name))
                .collect(),
        }
    }

    pub(super) fn name<'a>(&self, record: &Record<'a>) -> Cow<'a, str> {
        let text = self.name.and_then(|at| record.text(at));
        clean(text.unwrap_or(Cow::Borrowed(self.layer)), crate::text::NAME)
    }

    pub(super) fn args<'a>(&self, record: &Record<'a>, args: &mut Vec<(&'static str, Arg<'a>)>) {
        for (at, name) in &self.others {
            match record.value(*at) {
                ValueRef::Null | ValueRef::Blob(_) => {}
                ValueRef::Integer(number) => args.push((name, Arg::Integer(number))),
                ValueRef::Real(number) => args.push((name, Arg::Real(number))),
                ValueRef::Text(_) => {
                    let text = record.text(*at).unwrap_or_default();
                    args.push((name, Arg::Text(clean(text, VALUE))));
                }
            }
        }
    }
}

/// A number that may not be there, or be no process.
pub(super) fn id(record: &Record<'_>, at: Option<usize>) -> Option<u32> {
    at.and_then(|at| record.integer(at)).and_then(|number| u32::try_from(number).ok())
}
