//! The store as another process sees it: the file itself, and a copy of DuckDB's log beside it.
//!
//! At any moment both together are what a crash would leave, so they can be opened. Until the next checkpoint no block of the
//! file that they lead to is written to, because a crash would need it. The log only grows, and at most by what a checkpoint is
//! made for, so copying it is cheap; and nothing of the file is copied, however large it is.

use std::fs::DirBuilder;
use std::io::Result;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own, which goes when it is dropped.
#[derive(Debug)]
pub(super) struct Snapshot {
    folder: PathBuf,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Snapshot {
    /// Nobody may write, or make a checkpoint, while it is made.
    pub(super) fn make(file: &Path) -> Result<Snapshot> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = file.canonicalize()?;
        let folder = all(&file).join(format!("{}-{number}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let snapshot = Snapshot { folder };
        // Another name of the same file: DuckDB would follow a symbolic link, and find the log that is being written to.
        std::fs::hard_link(&file, snapshot.file())?;
        match std::fs::copy(log(&file), log(&snapshot.file())) {
            Ok(_) => {}
            // There is none after a checkpoint.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(snapshot)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("fleet.duckdb")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The folder of all of them.
fn all(file: &Path) -> PathBuf {
    file.with_file_name("sql")
}

/// Those that a server left that was killed.
pub(super) fn forget_all(file: &Path) {
    let _ = std::fs::remove_dir_all(all(file));
}

/// DuckDB's log of a file.
fn log(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(".wal");
    name.into()
}

/// Bytes that are in DuckDB's log, and not in the file yet.
pub(super) fn log_bytes(file: &Path) -> u64 {
    std::fs::metadata(log(file)).map_or(0, |about| about.len())
}
