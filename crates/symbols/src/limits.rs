//! How much is kept.

use std::time::Duration;

/// Bounds of all caches. What is used least is dropped first; it is read again where its process still lives.
#[derive(Debug, Clone)]
pub struct Limits {
    pub processes: usize,
    /// Files kept open. Each takes a descriptor, or two if it has a separate debug file.
    pub files: usize,
    /// Files kept open though no known process maps them: the next process probably does.
    pub idle_files: usize,
    /// Unwind tables in memory. A file with larger ones is unwound by frame pointers.
    pub table_bytes: u64,
    /// Symbols and debug information in memory. A file with more debug information than this gets names but no lines.
    pub symbol_bytes: u64,
    /// Addresses whose names are remembered.
    pub addresses: usize,
    /// An unknown address makes a process's mappings be read again, but not more often than this.
    pub reread_after: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            processes: 1024,
            files: 1024,
            idle_files: 128,
            table_bytes: 256 << 20,
            symbol_bytes: 512 << 20,
            addresses: 65_536,
            reread_after: Duration::from_millis(100),
        }
    }
}
