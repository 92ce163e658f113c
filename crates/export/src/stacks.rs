//! Stacks by their number, read when they are first asked for.

use crate::names::address;
use crate::text::name;
use crate::{ExportError, Source};
use gpuwhy_store::Value;
use std::collections::HashMap;
use std::rc::Rc;

/// How many stacks are remembered; the file has the others.
const KEPT: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Frame {
    pub(crate) function: String,
    /// Empty where unknown.
    pub(crate) file: String,
    /// 0 where unknown.
    pub(crate) line: u32,
    /// The library or program; empty for Python.
    pub(crate) module: String,
    pub(crate) address: u64,
}

impl Frame {
    /// One that is a word and nothing else.
    pub(crate) fn word(function: impl Into<String>) -> Frame {
        Frame { function: function.into(), ..Frame::default() }
    }
}

/// Outermost first.
pub(crate) type Frames = Rc<[Frame]>;

#[derive(Debug, Default)]
pub(crate) struct Stacks {
    known: HashMap<i64, Frames>,
}

impl Stacks {
    /// Empty where nobody looked at the stack.
    pub(crate) fn frames(&mut self, source: &Source<'_>, stack_id: i64) -> Result<Frames, ExportError> {
        if let Some(frames) = self.known.get(&stack_id) {
            return Ok(Rc::clone(frames));
        }
        let mut frames = Vec::new();
        let sql =
            "SELECT function, file, line, module, address FROM frames WHERE stack_id = ? ORDER BY depth DESC";
        source.reader.stream::<ExportError>(sql, &[Value::Integer(stack_id)], |record| {
            let text = |at: usize| name(&record.text(at).unwrap_or_default()).into_owned();
            let at = record.text(4);
            let (mut function, module) = (text(0), text(3));
            if function.is_empty() {
                // As profilers show what has no name.
                function = match module.rsplit('/').next() {
                    Some(library) if !library.is_empty() => format!("[{library}]"),
                    _ => at.as_deref().map_or_else(|| "?".into(), |at| name(at).into_owned()),
                };
            }
            frames.push(Frame {
                function,
                file: text(1),
                line: record.integer(2).unwrap_or(0).clamp(0, u32::MAX.into()) as u32,
                module,
                address: at.as_deref().and_then(address).unwrap_or(0),
            });
            Ok(())
        })?;
        let frames: Frames = frames.into();
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(stack_id, Rc::clone(&frames));
        Ok(frames)
    }
}
