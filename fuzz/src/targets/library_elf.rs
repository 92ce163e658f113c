//! Libraries that probes are put on: symbols, the sites of probes, the fields of a communicator. An input is an ELF file.

use crate::{Target, scratch};
use gpuwhy_probes::{CommunicatorLayout, fuzz};
use gpuwhy_proc::TargetFile;

pub(crate) const TARGET: Target = Target {
    name: "library_elf",
    about: "probed functions and their sites in a library, fields read off accessors (probes)",
    run,
    words: &[
        "cuLaunchKernel\0",
        "ncclCommUserRank\0",
        "ncclCommCount\0",
        ".dynsym\0",
        ".dynstr\0",
        ".symtab\0",
    ],
    runs: 3_000,
    most_bytes: 32 << 10,
};

fn run(bytes: &[u8]) {
    scratch::with_file(bytes, |path, _| {
        fuzz::sites(path);
        TargetFile::at(path).and_then(|file| CommunicatorLayout::of_library(&file));
    });
}
