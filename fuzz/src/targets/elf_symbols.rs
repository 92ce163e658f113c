//! Symbols by name in a file. An input is an ELF file; one that begins with `p` says itself where its tables are: offset and size of the
//! names and of the symbols, then the bytes.

use super::Input;
use crate::Target;
use gpuwhy_elf::{Bytes, Layout, Part, Table, find_symbols};

pub(crate) const TARGET: Target = Target {
    name: "elf_symbols",
    about: "layout, symbols found by name and run paths of an ELF file (elf)",
    run,
    words: &[
        "cuLaunchKernel\0",
        "ncclCommCount\0",
        "_PyRuntime\0",
        ".dynsym\0",
        ".dynstr\0",
        ".symtab\0",
        ".dynamic\0",
        ".gnu_debuglink\0",
    ],
    runs: 8_000,
    most_bytes: 32 << 10,
};

const WANTED: [&str; 4] = ["cuLaunchKernel", "ncclCommCount", "_PyRuntime", "Runtime"];

fn run(bytes: &[u8]) {
    let (file, layout) = match bytes.split_first() {
        Some((b'p', rest)) => described(rest),
        _ => {
            let file = bytes.to_vec();
            let Some(layout) = Layout::read(&file) else { return };
            (file, layout)
        }
    };
    for tables in [&[Table::Dynamic, Table::Full][..], &[Table::Full]] {
        let found = find_symbols(&file, &layout, tables, &WANTED);
        for name in found.symbols.keys() {
            let text = format!("{name}\0");
            assert!(file.windows(text.len()).any(|window| window == text.as_bytes()), "{name} is not in it");
        }
    }
    layout.run_paths(&file);
    for place in [0, file.size(), u64::MAX] {
        layout.address_of(place);
        layout.offset_of(place);
    }
}

fn described(bytes: &[u8]) -> (Vec<u8>, Layout) {
    let mut input = Input(bytes);
    let mut layout = Layout::default();
    for parts in &mut layout.symbols {
        for part in [&mut parts.names, &mut parts.table] {
            // The highest values count as much as the lowest.
            let mut number =
                || u64::from_le_bytes([input.byte(), input.byte(), 0, 0, input.byte(), 0, 0, input.byte()]);
            *part = Part { address: 0, offset: number(), size: number() };
        }
    }
    (input.0.to_vec(), layout)
}
