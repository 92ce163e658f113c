//! What a value of a file becomes in the merged one, told by its table and column.

use super::processes::Shift;
use super::stacks::Mapped;
use crate::Record;
use crate::schema::Table;
use crate::schema::merged::TIMES;
use rusqlite::types::{Value, ValueRef};
use std::collections::HashMap;

/// What is done to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rewrite {
    Keep,
    /// A point in time.
    Time,
    Pid,
    /// A thread of the process in that column.
    Thread(usize),
    /// The new process or thread of a fork, whose event and process are in those columns.
    Child(usize, usize),
    Session,
    Op,
    Library,
    Stack,
    /// JSON in which `pid` and `stack_id` are numbers of this file.
    Json,
    /// SQL that asks for a `pid`.
    Statement,
    /// As `process 4242`, or something else.
    Target,
}

pub(super) fn of(table: &Table) -> Vec<Rewrite> {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name);
    let thread = |of: &str| place(of).map_or(Rewrite::Keep, Rewrite::Thread);
    let column = |name: &str| match (table.name, name) {
        (_, name) if TIMES.contains(&name) => Rewrite::Time,
        // Unix time minus the monotonic clock moves with unix time.
        ("sessions", "clock_offset_ns") => Rewrite::Time,
        (_, "pid" | "by_pid" | "parent_pid") => Rewrite::Pid,
        (_, "tid" | "stream_tid") => thread("pid"),
        (_, "by_tid") => thread("by_pid"),
        (_, "child") => match (place("event"), place("pid")) {
            (Some(event), Some(pid)) => Rewrite::Child(event, pid),
            _ => Rewrite::Pid,
        },
        (_, "session_id") => Rewrite::Session,
        (_, "op_id") => Rewrite::Op,
        (_, "library_id") => Rewrite::Library,
        (_, "stack_id") => Rewrite::Stack,
        ("memory_failures", "holders") | ("findings", "causes") => Rewrite::Json,
        ("findings", "sql") => Rewrite::Statement,
        ("probes" | "watch_changes", "target") => Rewrite::Target,
        _ => Rewrite::Keep,
    };
    table.columns.iter().map(|own| column(own.name)).collect()
}

/// The numbers of one file.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) clock_shift_ns: i64,
    pub(super) session: i64,
    pub(super) shift: Shift,
    pub(super) ops: HashMap<i64, i64>,
    pub(super) libraries: HashMap<i64, i64>,
    pub(super) stacks: Mapped,
}

impl Numbers {
    /// The new value; nothing where it stays as it is.
    pub(super) fn value(&self, rewrite: Rewrite, record: &Record<'_>, at: usize) -> Option<Value> {
        match record.value(at) {
            ValueRef::Integer(number) => self.number(rewrite, record, number).map(Value::Integer),
            ValueRef::Text(_) if self.shift.pids.is_empty() && rewrite != Rewrite::Json => None,
            ValueRef::Text(_) => {
                let text = record.text(at)?;
                let new = match rewrite {
                    Rewrite::Json => self.json(&text),
                    Rewrite::Statement => self.behind(&text, "pid = "),
                    Rewrite::Target => self.behind(&text, "process "),
                    _ => None,
                };
                new.map(Value::Text)
            }
            _ => None,
        }
    }

    fn number(&self, rewrite: Rewrite, record: &Record<'_>, number: i64) -> Option<i64> {
        let pid = |at: usize| record.integer(at).unwrap_or(0);
        match rewrite {
            Rewrite::Time => Some(number.saturating_add(self.clock_shift_ns)),
            Rewrite::Pid => Some(self.shift.of(number)),
            Rewrite::Thread(at) => Some(self.shift.thread(pid(at), number)),
            Rewrite::Child(event, at) => match record.text(event).as_deref() {
                Some("thread_start") => Some(self.shift.thread(pid(at), number)),
                _ => Some(self.shift.of(number)),
            },
            Rewrite::Session => Some(number.saturating_add(self.session)),
            Rewrite::Op => self.ops.get(&number).copied(),
            Rewrite::Library => self.libraries.get(&number).copied(),
            Rewrite::Stack => Some(self.stacks.number(number)),
            Rewrite::Keep | Rewrite::Json | Rewrite::Statement | Rewrite::Target => None,
        }
    }

    fn json(&self, text: &str) -> Option<String> {
        let mut value: serde_json::Value = serde_json::from_str(text).ok()?;
        self.within(&mut value);
        Some(value.to_string())
    }

    fn within(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Array(members) => members.iter_mut().for_each(|member| self.within(member)),
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value.as_i64()) {
                        ("pid", Some(pid)) => *value = self.shift.of(pid).into(),
                        ("stack_id", Some(stack_id)) => *value = self.stacks.number(stack_id).into(),
                        _ => self.within(value),
                    }
                }
            }
            _ => {}
        }
    }

    /// Process numbers that follow a word.
    fn behind(&self, text: &str, word: &str) -> Option<String> {
        let mut new = String::with_capacity(text.len() + 8);
        let mut rest = text;
        while let Some(at) = rest.find(word) {
            let (before, after) = rest.split_at(at + word.len());
            new.push_str(before);
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            match after[..digits].parse() {
                Ok(pid) => new.push_str(&self.shift.of(pid).to_string()),
                Err(_) => new.push_str(&after[..digits]),
            }
            rest = &after[digits..];
        }
        new.push_str(rest);
        Some(new)
    }
}
