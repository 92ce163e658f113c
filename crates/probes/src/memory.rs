//! Reading a traced process's memory: names that did not fit into a record, fields of a library's structs.

use gpuwhy_proc::{ProcessMemory, look};

/// No name is longer.
const MAX: usize = 8192;
const PAGE: u64 = 4096;

/// The text that ends in NUL at an address, if the process still has it.
pub fn text_at(pid: u32, address: u64) -> Option<String> {
    look(pid, move || text_in(&ProcessMemory::open(pid).ok()?, address))?
}

fn text_in(memory: &ProcessMemory, address: u64) -> Option<String> {
    let mut text: Vec<u8> = Vec::new();
    let mut at = address;
    // Page by page: the next one may not be mapped.
    while text.len() < MAX {
        let mut part = vec![0u8; (PAGE - at % PAGE) as usize];
        memory.read(at, &mut part).then_some(())?;
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&part[..end]);
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            None => text.extend_from_slice(&part),
        }
        at += part.len() as u64;
    }
    None
}

/// Eight bytes at an address.
pub fn word_at(pid: u32, address: u64) -> Option<u64> {
    look(pid, move || {
        let mut bytes = [0u8; 8];
        ProcessMemory::open(pid).ok()?.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read() {
        let text = format!("{}\0", "x".repeat(5000));
        let pid = std::process::id();
        assert_eq!(text_at(pid, text.as_ptr() as u64).as_deref(), Some(&text[..5000]));
        let word = Box::new(0x1234_5678_9abc_def0u64);
        assert_eq!(word_at(pid, &raw const *word as u64), Some(*word));
        assert_eq!(text_at(pid, 8), None);
    }
}
