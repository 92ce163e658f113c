//! Whether a trace can be written to a path, before anything is done for it.

use crate::StoreError;
use crate::file::{self, Found};
use rusqlite::OpenFlags;
use rustix::fs::Access;
use std::path::Path;

/// Refuses a file that is no trace, a folder that is not there, and what may not be written. Makes and changes nothing: the writer looks
/// again, and finds damage. `create_folders`: folders that are missing will be made.
pub fn check_target(path: &Path, create_folders: bool) -> Result<(), StoreError> {
    let metadata = match file::regular(path) {
        Err(StoreError::NotFound { .. }) => return check_folder(path, create_folders),
        // Who may not see the file is told about the folder, or by the writer.
        Err(StoreError::Unreadable { .. }) if std::fs::metadata(path).is_err() => return Ok(()),
        found => found?,
    };
    if rustix::fs::access(path, Access::WRITE_OK).is_err() {
        return Err(unwritable(path, "permission denied; write to another file"));
    }
    if metadata.len() == 0 {
        return Ok(());
    }
    // A file that cannot be read without writing to it is the writer's to mend.
    let found = file::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|db| file::identify(&db, path));
    match found {
        Ok(Found::Ingero) => Err(StoreError::Foreign { path: path.into() }),
        Ok(Found::Trace | Found::Older | Found::Blank) | Err(StoreError::Unreadable { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn check_folder(path: &Path, create_folders: bool) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => {
            Err(unwritable(path, "its folder is a file; name another folder"))
        }
        Ok(_) => match rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::ROFS) => {
                Err(unwritable(path, "its disk is mounted read-only; write to another file"))
            }
            Err(_) => Err(unwritable(path, "permission denied; write to another file")),
        },
        Err(_) if create_folders => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(unwritable(path, "permission denied; write to another file"))
        }
        Err(_) => Err(unwritable(path, "its folder does not exist; create it first")),
    }
}

fn unwritable(path: &Path, why: &str) -> StoreError {
    StoreError::Unreadable { path: path.into(), why: why.into() }
}
