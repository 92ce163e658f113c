//! One writer a file: a lock that the kernel drops with the process, however it ends.

use crate::{Access, Reader, StoreError, file};
use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
    /// The file is made where there is none. Where nothing is said of who may read it, that stays as it is.
    pub(crate) fn take(path: &Path, access: Option<Access>) -> Result<Lock, StoreError> {
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
            .mode(0o600)
            .open(path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Busy { path: path.into(), pid: writer_of(path) });
            }
            Err(TryLockError::Error(error)) => return Err(StoreError::open(path, &error)),
        }
        let metadata = file.metadata().map_err(fail)?;
        if let Some(access) = access {
            restrict(path, &file, &metadata, access).map_err(fail)?;
        }
        let inode = inode(&metadata);
        writing().insert(inode);
        Ok(Lock { inode, _file: file, created })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        writing().remove(&self.inode);
    }
}

/// Also a file that was there, as an earlier gpuwhy made it open to all, and what SQLite keeps beside it, which gets the rights of
/// the file when it is made. Somebody else's file is his to open.
fn restrict(path: &Path, trace: &File, metadata: &Metadata, access: Access) -> std::io::Result<()> {
    let own = rustix::process::geteuid();
    if metadata.uid() != own.as_raw() && !own.is_root() {
        return Ok(());
    }
    access.set(trace)?;
    for suffix in ["-wal", "-shm", "-journal"] {
        match File::open(file::beside(path, suffix)) {
            Ok(beside) => access.set(&beside)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn writing() -> std::sync::MutexGuard<'static, BTreeSet<(u64, u64)>> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn writer_of(path: &Path) -> Option<u32> {
    Reader::open(path).ok()?.sessions().ok()?.last()?.writer_pid
}
