//! Stacks as lines of text, as far as they were seen lately.

use gpuwhy_model::{Batch, Frame, FrameKind, Stack, is_of_library};
use std::collections::{HashMap, VecDeque};

const MAX_STACKS: usize = 2_048;
const MAX_FRAMES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Lines {
    stacks: HashMap<i64, Vec<String>>,
    order: VecDeque<i64>,
}

impl Lines {
    pub(super) fn take(&mut self, batch: &Batch) {
        batch.stacks.iter().for_each(|stack| self.remember(stack));
    }

    fn remember(&mut self, stack: &Stack) {
        let lines: Vec<String> = stack.frames.iter().filter_map(line_of).take(MAX_FRAMES).collect();
        if lines.is_empty() {
            return;
        }
        if self.stacks.insert(stack.stack_id, lines).is_none() {
            self.order.push_back(stack.stack_id);
        }
        while self.order.len() > MAX_STACKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.stacks.remove(&oldest);
        }
    }

    /// Innermost first.
    pub(super) fn all(&self, stack_id: i64) -> Option<&[String]> {
        self.stacks.get(&stack_id).map(Vec::as_slice)
    }

    /// The program's own line, where there is one.
    pub(super) fn own(&self, stack_id: i64) -> Option<&str> {
        let lines = self.stacks.get(&stack_id)?;
        lines.iter().find(|line| !is_of_library(line)).or(lines.first()).map(String::as_str)
    }
}

/// As `train.py:142 forward`, or `cudaStreamSynchronize (libcudart.so.13)`.
fn line_of(frame: &Frame) -> Option<String> {
    let function = frame.function.as_deref();
    match (frame.kind, &frame.file, frame.line) {
        (FrameKind::Python, Some(file), Some(line)) => {
            Some(format!("{file}:{line} {}", function.unwrap_or("?")))
        }
        _ => function.map(|function| {
            match frame.module.rsplit('/').next().filter(|module| !module.is_empty()) {
                Some(module) => format!("{function} ({module})"),
                None => function.to_string(),
            }
        }),
    }
}
