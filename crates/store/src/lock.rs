//! One writer a file: a lock that the kernel drops with the process, however it ends.

use crate::{Reader, StoreError, file};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The files this process is writing, by device and inode. Closing any descriptor of a file drops the POSIX
/// locks that SQLite holds on it in the same process, so such a file must not even be opened a second time.
static WRITING: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Held from before SQLite opens the file until after it has closed it.
#[derive(Debug)]
pub(crate) struct Lock {
    inode: (u64, u64),
    /// Open as long as the lock is held.
    _file: File,
    /// Whether the file was made to be locked.
    pub(crate) created: bool,
}

impl Lock {
    pub(crate) fn take(path: &Path) -> Result<Lock, StoreError> {
        let created = match file::regular(path) {
            Ok(metadata) if writing().contains(&inode(&metadata)) => {
                return Err(StoreError::Busy { path: path.into(), pid: Some(std::process::id()) });
            }
            Ok(_) => false,
            Err(StoreError::NotFound { .. }) => true,
            // Opening it to write says so in words about writing.
            Err(StoreError::Unreadable { .. }) if std::fs::metadata(path).is_err() => false,
            Err(error) => return Err(error),
        };
        let fail = |error: std::io::Error| {
            let unwritable = |why: &str| StoreError::Unreadable { path: path.into(), why: why.into() };
            match error.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                    unwritable("its folder does not exist; create it first")
                }
                std::io::ErrorKind::PermissionDenied => {
                    unwritable("permission denied; write to another file")
                }
                std::io::ErrorKind::ReadOnlyFilesystem => {
                    unwritable("its disk is mounted read-only; write to another file")
                }
                _ => StoreError::open(path, &error),
            }
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Busy { path: path.into(), pid: writer_of(path) });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::open(path, &error)),
        }
        let inode = inode(&file.metadata().map_err(fail)?);
        writing().insert(inode);
        Ok(Lock { inode, _file: file, created })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        writing().remove(&self.inode);
    }
}

fn writing() -> std::sync::MutexGuard<'static, BTreeSet<(u64, u64)>> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inode(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn writer_of(path: &Path) -> Option<u32> {
    Reader::open(path).ok()?.sessions().ok()?.last()?.writer_pid
}
