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
    /// Indexes of unwind tables in memory, for files that have none of their own. A file whose tables are larger than this and
    /// have no index is unwound by frame pointers.
    pub table_bytes: u64,
    /// Symbols and debug information in memory.
    pub symbol_bytes: u64,
    /// A file whose debug information takes more memory than this gets names but no lines.
    pub debug_bytes: u64,
    /// Symbols and debug information that nobody asked for during this time are dropped.
    pub names_idle: Duration,
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
            table_bytes: 32 << 20,
            symbol_bytes: 32 << 20,
            debug_bytes: 16 << 20,
            names_idle: Duration::from_secs(30),
            addresses: 32_768,
            reread_after: Duration::from_millis(100),
        }
    }
}
