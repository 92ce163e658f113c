//! Files that are still there after a crash: before one counts, its bytes are on disk, and so is its name in the folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Waits until a file or a folder is on disk.
pub(super) type Sync = fn(&File) -> io::Result<()>;

/// A new file with these bytes, or none.
pub(super) fn create(path: &Path, bytes: &[u8], sync: Sync) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    let made = file.write_all(bytes).and_then(|()| sync(&file));
    made.and_then(|()| sync(&File::open(folder)?)).inspect_err(|_| {
        // Half of one is in nobody's way, but of no use either.
        let _ = std::fs::remove_file(path);
    })?;
    Ok(file)
}
