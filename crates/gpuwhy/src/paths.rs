//! Where files are when nobody says.

use crate::log::log;
use std::path::{Path, PathBuf};

pub(crate) fn default_trace() -> PathBuf {
    folder().join("trace.db")
}

/// Of what waits to be sent to a fleet.
pub(crate) fn default_spool() -> PathBuf {
    folder().join("fleet")
}

/// Of the libraries that earlier traces found. `GPUWHY_LIBRARIES` names another file, or none where it is empty.
pub(crate) fn known_libraries() -> Option<PathBuf> {
    let named = std::env::var_os("GPUWHY_LIBRARIES").map(PathBuf::from);
    Some(named.unwrap_or_else(|| folder().join("libraries.json"))).filter(|path| !path.as_os_str().is_empty())
}

/// Where root's are.
pub(crate) const ROOTS: &str = "/var/lib/gpuwhy";

/// Whether root has traced here; what is in the folder others cannot see.
pub(crate) fn has_roots() -> bool {
    Path::new(ROOTS).is_dir()
}

/// Tells an ordinary user who reads the usual file without naming one that root has traced since it was written.
pub(crate) fn mention_roots(file: &Path, command: &str) {
    if is_default_of_user(file) && is_newer(Path::new(ROOTS), file) {
        log!("this is your own trace, and root has traced since: `sudo gpuwhy {command}` shows that one");
    }
}

/// The folder alone may be seen by others: it changes when a trace begins and when it ends.
fn is_newer(folder: &Path, file: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let of_trace = changed(&folder.join("trace.db")).or_else(|| changed(folder));
    of_trace.zip(changed(file)).is_some_and(|(roots, own)| roots > own)
}

/// The file that an ordinary user gets without naming one.
pub(crate) fn is_default_of_user(path: &Path) -> bool {
    !rustix::process::geteuid().is_root() && path == default_trace()
}

/// `/var/lib/gpuwhy` for root, else below the user's data folder.
fn folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from(ROOTS);
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("gpuwhy")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir, write};
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_newer_of_two_traces_is_known_by_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (roots, own) = (folder.path().join("roots"), folder.path().join("own.db"));
        write(&own, "own").unwrap();
        assert!(!is_newer(&roots, &own), "root has no folder");
        create_dir(&roots).unwrap();
        write(roots.join("trace.db"), "root's").unwrap();
        let set = |path: &Path, seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        set(&own, 100);
        set(&roots.join("trace.db"), 200);
        assert!(is_newer(&roots, &own));
        set(&own, 300);
        assert!(!is_newer(&roots, &own));
        assert!(!is_newer(&roots, &folder.path().join("missing.db")));
    }
}
