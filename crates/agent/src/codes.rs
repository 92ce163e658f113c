//! Code objects of Python: what the kernel sent of them, once each, and what of them is read from outside.

use crate::runtime::Runtime;
use gpuwhy_model::{Frame, FrameKind, PythonFrame, RawCode, RawText};
use gpuwhy_python::{Code, decode_text};
use std::collections::HashMap;

/// Remembered of all processes; beyond it all are forgotten, and read anew where their process lives.
const MAX_CODES: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Codes {
    /// By process and the kernel's number of the code.
    codes: HashMap<(u32, u64), Option<Code>>,
}

impl Codes {
    pub(crate) fn take(&mut self, raw: RawCode, runtime: &Runtime) {
        // One that did not fit into its record is read whole.
        let is_cut = raw.lines_bytes > raw.lines.len() || raw.lines_bytes == 0;
        let whole = if is_cut { runtime.code(raw.address) } else { None };
        let layout = &runtime.interpreter.layout;
        let text = |text: &RawText| decode_text(layout, text.state, text.length, &text.data);
        let code = whole.unwrap_or_else(|| Code {
            filename: text(&raw.file),
            name: text(&raw.name),
            first_line: raw.first_line,
            linetable: raw.lines,
        });
        self.remember((raw.pid, raw.code), Some(code));
    }

    fn remember(&mut self, key: (u32, u64), code: Option<Code>) {
        if self.codes.len() >= MAX_CODES {
            self.codes.clear();
        }
        self.codes.insert(key, code);
    }

    pub(crate) fn forget(&mut self, pid: u32) {
        self.codes.retain(|(of, _), _| *of != pid);
    }

    /// File, function and line of a frame. A code object whose record got lost is read from the process.
    pub(crate) fn frame(&mut self, pid: u32, raw: &PythonFrame, runtime: Option<&Runtime>) -> Frame {
        let key = (pid, raw.code);
        if !self.codes.contains_key(&key) {
            self.remember(key, runtime.and_then(|runtime| runtime.code(raw.address)));
        }
        let code = self.codes.get(&key).and_then(Option::as_ref);
        let mut frame = Frame { kind: FrameKind::Python, ..Frame::default() };
        if let Some((code, runtime)) = code.zip(runtime) {
            frame.file = Some(code.filename.clone());
            frame.function = Some(code.name.clone());
            frame.line = runtime.line(code, raw.instr);
        }
        frame
    }
}
