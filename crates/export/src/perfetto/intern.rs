//! What is written once and then meant by its number.

use super::messages::{Callstack, Frame, InternedData, InternedText, Mapping};
use crate::stacks;
use std::collections::HashMap;

/// How many strings of one kind are remembered: what users made up has no end.
const MAX: usize = 1 << 16;

/// Numbers of the texts of one kind.
#[derive(Debug, Default)]
pub(super) struct Texts {
    numbers: HashMap<String, u64>,
}

impl Texts {
    /// Its number; the text goes into `news` the first time. Nothing where there are too many.
    pub(super) fn number(&mut self, text: &str, news: &mut Vec<InternedText>) -> Option<u64> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        if self.numbers.len() == MAX {
            return None;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_string(), number);
        news.push(InternedText { iid: Some(number), text: Some(text.to_string()) });
        Some(number)
    }
}

/// Numbers of stacks, their frames, and what those are made of.
#[derive(Debug, Default)]
pub(super) struct CallStacks {
    stacks: HashMap<i64, Option<u64>>,
    frames: HashMap<stacks::Frame, u64>,
    functions: Texts,
    files: Texts,
    modules: Texts,
}

impl CallStacks {
    /// What is known of a stack, if it was met before: its number, or that it has no frames.
    pub(super) fn known(&self, stack_id: i64) -> Option<Option<u64>> {
        self.stacks.get(&stack_id).copied()
    }

    pub(super) fn add(
        &mut self,
        stack_id: i64,
        frames: &[stacks::Frame],
        news: &mut InternedData,
    ) -> Option<u64> {
        if frames.is_empty() {
            self.stacks.insert(stack_id, None);
            return None;
        }
        let frame_ids = frames.iter().map(|frame| self.frame(frame, news)).collect();
        let number = self.stacks.len() as u64 + 1;
        self.stacks.insert(stack_id, Some(number));
        news.callstacks.push(Callstack { iid: Some(number), frame_ids });
        Some(number)
    }

    fn frame(&mut self, frame: &stacks::Frame, news: &mut InternedData) -> u64 {
        if let Some(number) = self.frames.get(frame) {
            return *number;
        }
        let number = self.frames.len() as u64 + 1;
        self.frames.insert(frame.clone(), number);
        let module = if frame.module.is_empty() { &frame.file } else { &frame.module };
        let known = self.modules.numbers.len();
        let mapping_id = self.modules.number(module, &mut news.mapping_paths);
        if self.modules.numbers.len() > known {
            // A mapping for each path, under the same number.
            news.mappings
                .push(Mapping { iid: mapping_id, path_string_ids: mapping_id.into_iter().collect() });
        }
        let source_path_iid = match frame.file.is_empty() {
            true => None,
            false => self.files.number(&frame.file, &mut news.source_paths),
        };
        news.frames.push(Frame {
            iid: Some(number),
            function_name_id: self.functions.number(&frame.function, &mut news.function_names),
            mapping_id,
            rel_pc: Some(frame.address).filter(|address| *address != 0),
            source_path_iid,
            line_number: Some(frame.line).filter(|line| *line != 0),
        });
        number
    }
}
