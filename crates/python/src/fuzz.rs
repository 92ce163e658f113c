//! Entry points for the fuzzers in `fuzz/`: what is read of an interpreter's file and memory. Nothing else calls them.

use crate::elf::PythonFile;
use crate::offsets::layout_of;
use crate::{Interpreter, Layout, Memory, Version};
use gpuwhy_proc::{Mapping, TargetFile};
use std::path::Path;

/// The file of an interpreter, mapped as `mappings` say; whether there is one in it.
pub fn file(path: &Path, named: Option<Version>, mappings: &[Mapping]) -> bool {
    let Some(file) = TargetFile::at(path).and_then(|file| PythonFile::read(&file, named)) else {
        return false;
    };
    file.bias(&mappings.iter().collect::<Vec<_>>());
    file.runtime.is_some()
}

/// The interpreter whose `_PyRuntime` is at an address.
pub fn interpreter(memory: &impl Memory, runtime: u64, reported: Option<Version>) -> Option<Interpreter> {
    Interpreter::at(memory, runtime, reported, String::new()).ok()
}

/// The layout that the table has for a version.
pub fn layout(version: &Version) -> Option<Layout> {
    layout_of(version)
}
