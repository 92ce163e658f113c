//! Readers of the trace file, kept for the next question. A trace that is being written is read as it grows; one that was
//! replaced by another file is opened anew.

use gpuwhy_store::{Reader, StoreError, Worker};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Readers that wait for a question.
const IDLE: usize = 4;

#[derive(Debug)]
pub(crate) struct Traces {
    path: PathBuf,
    /// Who answers statements of users.
    worker: Option<Worker>,
    idle: Mutex<Vec<(Identity, Reader)>>,
}

/// Which file it is: its device and inode.
pub(crate) type Identity = Option<(u64, u64)>;

/// What a file looks like from outside; another look means that it was written to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Look(Vec<(u64, u64, u64, i64, i64)>);

impl Traces {
    pub(crate) fn new(path: PathBuf) -> Traces {
        Traces { path, worker: None, idle: Mutex::default() }
    }

    pub(crate) fn answer_in(&mut self, worker: Worker) {
        self.worker = Some(worker);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn take(&self) -> Result<(Identity, Reader), StoreError> {
        let identity = std::fs::metadata(&self.path).ok().map(|file| (file.dev(), file.ino()));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(of, _)| *of == identity);
        if let Some(reader) = idle.pop() {
            return Ok(reader);
        }
        drop(idle);
        let mut reader = Reader::open(&self.path)?;
        if let Some(worker) = &self.worker {
            reader.answer_in(worker.clone());
        }
        Ok((identity, reader))
    }

    pub(crate) fn give(&self, identity: Identity, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A copy does not see what is written later.
        if idle.len() < IDLE && !reader.is_copy() {
            idle.push((identity, reader));
        }
    }

    /// Of the file and of the log beside it.
    pub(crate) fn look(&self) -> Look {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let files = [self.path.clone(), PathBuf::from(log)];
        Look(
            files
                .iter()
                .filter_map(|path| std::fs::metadata(path).ok())
                .map(|file| (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
                .collect(),
        )
    }
}
