//! Files that processes execute, whole: layout, symbols, lines and unwind tables. An input is an ELF file; one that begins with `m`
//! is a mangled name, one with `p` a perf map.

use crate::{Target, scratch};
use gpuwhy_symbols::fuzz;

pub(crate) const TARGET: Target = Target {
    name: "symbol_elf",
    about: "layout, symbols, lines and callers of an ELF file; mangled names; perf maps (symbols)",
    run,
    words: &[
        ".eh_frame\0",
        ".eh_frame_hdr\0",
        ".debug_info\0",
        ".debug_line\0",
        ".debug_abbrev\0",
        ".gnu_debuglink\0",
        ".symtab\0",
        ".strtab\0",
        "GNU\0",
        "_ZN",
        "_R",
        "S_",
        "St",
        "PFv",
        "17h0123456789abcdefE",
    ],
    runs: 8_000,
    most_bytes: 32 << 10,
};

/// No name is shown longer.
const MAX_NAME_LEN: usize = 4096;

fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((b'm', name)) => {
            let shown = fuzz::name(&String::from_utf8_lossy(name));
            assert!(shown.len() <= MAX_NAME_LEN, "a name of {} bytes", shown.len());
        }
        Some((b'p', text)) => fuzz::perf_map(text),
        _ => {
            let addresses: Vec<u64> =
                (0x1000..0x1200).step_by(0x21).chain([0, 0x2000, 1 << 32, (1 << 56) - 1, u64::MAX]).collect();
            scratch::with_file(bytes, |_, file| fuzz::file(file, &addresses, &[0x10; 512]));
        }
    }
}
