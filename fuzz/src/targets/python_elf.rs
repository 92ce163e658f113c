//! Files of interpreters. An input is an ELF file.

use crate::{Target, scratch};
use gpuwhy_proc::Maps;
use gpuwhy_python::{Version, fuzz};

pub(crate) const TARGET: Target = Target {
    name: "python_elf",
    about: "the interpreter in an ELF file: its runtime, its version, where it was loaded (python)",
    run,
    words: &["_PyRuntime\0", "Py_Version\0", ".PyRuntime\0", ".rodata\0", "\u{0}3.10.13\0", "\u{0}3.9.2+\0"],
    runs: 3_000,
    most_bytes: 32 << 10,
};

const MAPS: &[u8] =
    b"400000-401000 r--p 00000000 fe:00 7 /python3.10\n401000-402000 r-xp 00001000 fe:00 7 /python3.10\n\
    7f0000000000-7f0000002000 rw-p ffffffffffff0000 fe:00 7 /python3.10\n";

fn run(bytes: &[u8]) {
    let mappings: Vec<_> = Maps::from(MAPS).iter().collect();
    scratch::with_file(bytes, |path, _| {
        for named in [None, Some(Version { major: 3, minor: 10, micro: 0, free_threaded: false })] {
            for first in 0..mappings.len() {
                fuzz::file(path, named, &mappings[first..]);
            }
        }
    });
}
