//! Files for targets that read files: in memory where the machine has such a place, as a disk would be the slowest part.

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that is gone with the process.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("gpuwhy-fuzz-").tempdir_in(within).expect("a temporary folder")
}

/// The thread's own folder.
pub(crate) fn with_folder<T>(work: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    FOLDER.with_borrow_mut(|made| work(made.get_or_insert_with(folder).path()))
}

/// A file with these bytes.
pub(crate) fn with_file<T>(bytes: &[u8], work: impl FnOnce(&Path, &File) -> T) -> T {
    with_folder(|folder| {
        let path: PathBuf = folder.join("input");
        fs::write(&path, bytes).expect("a temporary file");
        let file = File::open(&path).expect("a temporary file");
        work(&path, &file)
    })
}
