//! Where in the code kept calls came from.

use gpuwhy_model::{Batch, Frame, FrameKind, OpId, Stack};
use std::collections::HashMap;

/// Stacks remembered; the rest is in the file.
const MAX_STACKS: usize = 8_192;

/// Kept calls by stack, and the line each stack stands for.
#[derive(Debug, Clone, Default)]
pub struct Code {
    calls: HashMap<(u32, OpId, i64), (u64, u64)>,
    lines: HashMap<i64, String>,
}

/// Kept calls of one operation from one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSum {
    pub pid: u32,
    pub op: OpId,
    /// As `train.py:142 Model.forward`, or the native function and its library.
    pub line: String,
    pub calls: u64,
    pub ns: u64,
}

impl Code {
    pub(super) fn take(&mut self, batch: &Batch) {
        if self.calls.len() >= MAX_STACKS || self.lines.len() >= MAX_STACKS {
            self.calls.clear();
            self.lines.clear();
        }
        for call in &batch.calls {
            if let Some(stack_id) = call.stack_id {
                let (calls, ns) = self.calls.entry((call.pid, call.op, stack_id)).or_default();
                *calls += 1;
                *ns += call.duration_ns;
            }
        }
        self.lines.extend(batch.stacks.iter().filter_map(|stack| Some((stack.stack_id, line_of(stack)?))));
    }

    /// Most time first.
    pub fn lines(&self) -> Vec<LineSum> {
        let mut sums: HashMap<(u32, OpId, &str), (u64, u64)> = HashMap::new();
        for ((pid, op, stack_id), (calls, ns)) in &self.calls {
            if let Some(line) = self.lines.get(stack_id) {
                let sum = sums.entry((*pid, *op, line)).or_default();
                sum.0 += calls;
                sum.1 += ns;
            }
        }
        let mut lines: Vec<LineSum> = sums
            .into_iter()
            .map(|((pid, op, line), (calls, ns))| LineSum { pid, op, line: line.into(), calls, ns })
            .collect();
        lines.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.line.cmp(&b.line)));
        lines
    }
}

/// The innermost line of Python, else the innermost native function that has a name.
pub(crate) fn line_of(stack: &Stack) -> Option<String> {
    let python =
        stack.frames.iter().find(|frame| frame.kind == FrameKind::Python && frame.function.is_some());
    let native = || stack.frames.iter().find(|frame| frame.function.is_some());
    python.or_else(native).map(shown)
}

fn shown(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    let place = frame.file.as_deref().unwrap_or(&frame.module);
    let name = place.rsplit('/').next().unwrap_or(place);
    match frame.line {
        Some(line) => format!("{name}:{line} {function}"),
        None => format!("{name} {function}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwhy_model::Call;

    #[test]
    fn the_innermost_line_of_python_stands_for_a_stack() {
        let frame = |kind, function: &str, line| Frame {
            kind,
            function: Some(function.into()),
            file: Some("/job/train.py".into()),
            line,
            ..Frame::default()
        };
        let stack = Stack {
            stack_id: 5,
            frames: vec![
                frame(FrameKind::Native, "cudaMalloc", None),
                frame(FrameKind::Python, "forward", Some(142)),
                frame(FrameKind::Python, "main", Some(9)),
            ],
            ..Stack::default()
        };
        let call = Call { pid: 1, op: OpId(2), stack_id: Some(5), duration_ns: 7, ..Call::default() };
        let mut code = Code::default();
        code.take(&Batch { calls: vec![call.clone(), call], ..Batch::default() });
        assert_eq!(code.lines(), Vec::new(), "its name comes later");
        code.take(&Batch { stacks: vec![stack], ..Batch::default() });
        let line = "train.py:142 forward".to_string();
        assert_eq!(code.lines(), vec![LineSum { pid: 1, op: OpId(2), line, calls: 2, ns: 14 }]);
    }
}
