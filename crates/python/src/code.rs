//! Code objects: what a function is called, and where it was written.

use crate::memory::{is_address, read_pointer, read_u32, read_u64};
use crate::text::read_text_field;
use crate::{Interpreter, Memory};

/// The largest line table that is read: that of a module with tens of thousands of lines.
const MAX_TABLE_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    pub filename: String,
    /// With its classes and outer functions where the version keeps that (3.11 and newer).
    pub name: String,
    pub first_line: u32,
    /// For [`crate::line_at`].
    pub linetable: Vec<u8>,
}

/// The code object at an address; none if there is none.
pub fn read_code(memory: &impl Memory, interpreter: &Interpreter, code: u64) -> Option<Code> {
    is_address(code).then_some(())?;
    let layout = &interpreter.layout;
    let name = if layout.code_qualname == 0 { layout.code_name } else { layout.code_qualname };
    let table = read_pointer(memory, code + u64::from(layout.code_linetable))?;
    let bytes = read_u64(memory, table + u64::from(layout.bytes_size))?;
    if bytes > MAX_TABLE_BYTES {
        return None;
    }
    let mut linetable = vec![0; bytes as usize];
    if !memory.read(table + u64::from(layout.bytes_data), &mut linetable) {
        return None;
    }
    Some(Code {
        filename: read_text_field(memory, layout, code + u64::from(layout.code_filename))?,
        name: read_text_field(memory, layout, code + u64::from(name))?,
        first_line: read_u32(memory, code + u64::from(layout.code_firstlineno))?,
        linetable,
    })
}
