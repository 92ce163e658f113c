//! Another process's memory.

use crate::PythonError;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at addresses.
pub trait Memory {
    /// Fills all of `into`, or says false.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
}

/// A process's memory through `/proc`: the process is not stopped, so what is read may change meanwhile.
#[derive(Debug)]
pub struct ProcessMemory {
    file: File,
}

impl ProcessMemory {
    pub fn open(pid: u32) -> Result<Self, PythonError> {
        let file =
            File::open(format!("/proc/{pid}/mem")).map_err(|why| PythonError::Unreadable { pid, why })?;
        Ok(Self { file })
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, address).is_ok()
    }
}

pub(crate) fn read_u64(memory: &impl Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

pub(crate) fn read_u32(memory: &impl Memory, address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    memory.read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
}

/// No process has memory above. What is below has room for the offset of any field.
const HIGHEST: u64 = 1 << 57;

/// Whether a process can have something there: it writes what it likes where pointers are looked for.
pub(crate) fn is_address(value: u64) -> bool {
    (1..HIGHEST).contains(&value)
}

/// A pointer field; none where it is null, leads nowhere or is unreadable.
pub(crate) fn read_pointer(memory: &impl Memory, address: u64) -> Option<u64> {
    read_u64(memory, address).filter(|pointer| is_address(*pointer))
}
