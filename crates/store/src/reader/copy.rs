//! A copy of a trace, for where SQLite cannot read the original in its place: an unfinished file whose folder
//! the reader may not write to.

use crate::{StoreError, file};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Copies the file and the log or journal beside it; `why` is what SQLite said.
pub(super) fn of(path: &Path, why: &str) -> Result<(TempDir, PathBuf), StoreError> {
    // Permission is told apart here, and in the system's words.
    let unreadable = |at: &Path, error: &std::io::Error| StoreError::open(at, error);
    std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let failed = |error: std::io::Error| StoreError::Unreadable {
        path: path.into(),
        why: format!("{why}, and it could not be copied to a temporary folder: {error}"),
    };
    let folder = tempfile::tempdir().map_err(failed)?;
    let target = folder.path().join("trace.db");
    std::fs::copy(path, &target).map_err(failed)?;
    for suffix in ["-wal", "-journal"] {
        let from = file::beside(path, suffix);
        match std::fs::copy(&from, file::beside(&target, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(unreadable(&from, &error));
            }
            _ => {}
        }
    }
    make_writable(&folder).map_err(failed)?;
    Ok((folder, target))
}

/// Copies keep the modes of the originals, which may be read-only.
fn make_writable(folder: &TempDir) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder.path())? {
        std::fs::set_permissions(entry?.path(), std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}
