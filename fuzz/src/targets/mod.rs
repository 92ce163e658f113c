//! A file a target.

pub(crate) mod annotation_lines;
pub(crate) mod debug_lines;
pub(crate) mod elf_symbols;
pub(crate) mod fleet_sql;
pub(crate) mod journal;
pub(crate) mod library_elf;
pub(crate) mod metric_pages;
pub(crate) mod otlp;
pub(crate) mod proc_texts;
pub(crate) mod python_elf;
pub(crate) mod python_memory;
pub(crate) mod ring_records;
pub(crate) mod symbol_elf;
pub(crate) mod trace_base;
pub(crate) mod trace_files;
pub(crate) mod trace_sql;
pub(crate) mod trace_stream;
pub(crate) mod unwind_tables;

/// What parts texts of one input.
pub(crate) const SEPARATOR: u8 = 0x1e;

/// Takes numbers and pieces off an input; zeros and nothing behind its end.
#[derive(Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.number())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.number())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.number())
    }
}
