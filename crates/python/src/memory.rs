//! Another process's memory.

pub use gpuwhy_proc::ProcessMemory;

/// Bytes that can be read at addresses.
pub trait Memory {
    /// Fills all of `into`, or says false.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        ProcessMemory::read(self, address, into)
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
