//! Stored stacks, read back.

use crate::support::Trace;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: String,
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: i64,
    pub(crate) module: String,
    pub(crate) inlined: bool,
}

/// The stack of a call, innermost frame first.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) complete: bool,
    pub(crate) frames: Vec<Frame>,
}

impl Stored {
    /// That of the one call a condition on `cuda_events` is true of.
    pub(crate) fn of(trace: &Trace, condition: &str) -> Stored {
        let ids = Self::ids(trace, condition);
        assert_eq!(ids.len(), 1, "calls with {condition}: {ids:?}");
        let id = ids[0].unwrap_or_else(|| panic!("the call with {condition} has no stack"));
        Self::of_id(trace, id)
    }

    /// Of all calls a condition is true of, in their order; nothing for one without a stack.
    pub(crate) fn ids(trace: &Trace, condition: &str) -> Vec<Option<i64>> {
        let db = trace.db();
        let sql = format!("SELECT stack_id FROM cuda_events WHERE {condition} ORDER BY timestamp_ns");
        let mut rows = db.prepare(&sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn of_id(trace: &Trace, id: i64) -> Stored {
        let db = trace.db();
        let mut rows = db
            .prepare("SELECT kind, function, file, line, module, inlined FROM frames WHERE stack_id = ? ORDER BY depth")
            .unwrap();
        let text = |value: Option<String>| value.unwrap_or_default();
        let frames = rows
            .query_map([id], |row| {
                Ok(Frame {
                    kind: row.get(0)?,
                    function: text(row.get(1)?),
                    file: text(row.get(2)?),
                    line: row.get::<_, Option<i64>>(3)?.unwrap_or(0),
                    module: text(row.get(4)?),
                    inlined: row.get::<_, Option<i64>>(5)? == Some(1),
                })
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let complete = db.query_row("SELECT complete FROM stacks WHERE stack_id = ?", [id], |row| row.get(0));
        Stored {
            complete: complete.unwrap_or_else(|error| panic!("stack {id} is not stored: {error}")),
            frames,
        }
    }

    pub(crate) fn functions(&self) -> Vec<&str> {
        self.frames.iter().map(|frame| frame.function.as_str()).collect()
    }

    pub(crate) fn has(&self, function: &str) -> bool {
        self.position(function).is_some()
    }

    pub(crate) fn position(&self, function: &str) -> Option<usize> {
        self.frames.iter().position(|frame| frame.function == function)
    }

    pub(crate) fn python(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(|frame| frame.kind == "python")
    }

    /// All of it, for a message.
    pub(crate) fn shown(&self) -> String {
        let lines = self.frames.iter().map(|frame| {
            format!("  {:6} {} {}:{} {}\n", frame.kind, frame.function, frame.file, frame.line, frame.module)
        });
        format!("complete: {}\n{}", self.complete, lines.collect::<String>())
    }
}
