//! Stacks of kept calls and of samples: raw bytes to the model's values. A stack's copy comes in parts, before the record it belongs to.

use crate::raw::{cuda as raw, read};
use gpuwhy_model::{PythonFrame, RawCode, RawStack, RawText};
use std::collections::HashMap;

/// Copies that were begun and whose record has not come: it got lost. Beyond so many they are forgotten.
const MAX_STARTED: usize = 256;

/// Parts of stacks, until their record comes.
#[derive(Debug, Default)]
pub(crate) struct Parts(HashMap<u64, Vec<u8>>);

impl Parts {
    pub(crate) fn take_part(&mut self, bytes: &[u8]) -> Option<()> {
        let part: Box<raw::stack_part_record> = Box::new(read(bytes)?);
        if self.0.len() >= MAX_STARTED {
            self.0.clear();
        }
        let copied = self.0.entry(part.key).or_default();
        if part.offset == 0 {
            copied.clear();
        }
        // A part that got lost ends the copy.
        if copied.len() == part.offset as usize {
            copied.extend_from_slice(part.data.get(..part.bytes as usize)?);
        }
        Some(())
    }

    pub(crate) fn decode_stack(&mut self, bytes: &[u8], clock_offset_ns: u64) -> Option<RawStack> {
        let record: raw::stack_record = read(bytes)?;
        Some(RawStack {
            time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
            key: record.key,
            pid: record.head.tgid,
            tid: record.head.tid,
            ip: record.ip,
            sp: record.sp,
            bp: record.bp,
            copied: self.0.remove(&record.key).unwrap_or_default(),
            swapped: record
                .swapped
                .get(..record.swapped_count as usize)?
                .iter()
                .map(|swapped| (swapped.at, swapped.original))
                .collect(),
            native: record.native.get(..record.native_bytes as usize / 8)?.to_vec(),
            python: record
                .python
                .frames
                .get(..record.python_frames as usize)?
                .iter()
                .map(|frame| PythonFrame {
                    code: frame.code,
                    address: frame.address,
                    instr: frame.instr,
                    entry: frame.flags & raw::FRAME_ENTRY != 0,
                    foot: frame.foot,
                })
                .collect(),
            python_cut: record.python_cut != 0,
            sampled: record.sampled != 0,
        })
    }
}

pub(crate) fn decode_code(bytes: &[u8], clock_offset_ns: u64) -> Option<RawCode> {
    let record: Box<raw::code_record> = Box::new(read(bytes)?);
    let lines_bytes = record.lines_bytes as usize;
    Some(RawCode {
        time_ns: record.head.time_ns.wrapping_add(clock_offset_ns),
        pid: record.head.tgid,
        code: record.code,
        address: record.address,
        first_line: record.first_line,
        file: decode_text(&record.file)?,
        name: decode_text(&record.name)?,
        lines: record.lines.get(..lines_bytes.min(record.lines.len()))?.to_vec(),
        lines_bytes,
    })
}

fn decode_text(text: &raw::python_text) -> Option<RawText> {
    Some(RawText {
        state: text.state,
        length: text.length,
        data: text.data.get(..text.bytes as usize)?.to_vec(),
    })
}
