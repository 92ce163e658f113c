//! Segments: the journal's files. One is written to; the others wait until the store has what is in them.

use super::{Position, durable};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// How a file begins; another version of the format will begin otherwise.
const MAGIC: &[u8; 8] = b"gpuwhyJ1";
const ENDING: &str = ".journal";

/// Where the first frame is.
pub(super) const FIRST: u64 = MAGIC.len() as u64;

pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}{ENDING}"))
}

/// Those that are there, the oldest first.
pub(super) fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A new one, which is still there after a crash.
pub(super) fn create(folder: &Path, number: u64) -> io::Result<File> {
    durable::create(&path(folder, number), MAGIC, File::sync_all)
}

/// What is in it from there on, to its end or to `to`.
pub(super) fn read(folder: &Path, from: Position, to: Option<u64>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path(folder, from.segment))?;
    file.seek(SeekFrom::Start(from.offset))?;
    let mut bytes = Vec::new();
    file.take(to.map_or(u64::MAX, |to| to.saturating_sub(from.offset))).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether it begins as it must. A crash may leave less than that, in which nothing can be.
pub(super) fn is_known(folder: &Path, number: u64) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(path(folder, number))?.take(FIRST).read_to_end(&mut begin)?;
    Ok(MAGIC.starts_with(&begin))
}

pub(super) fn delete(folder: &Path, number: u64) {
    // One that stays is deleted when the server begins again.
    let _ = std::fs::remove_file(path(folder, number));
}
