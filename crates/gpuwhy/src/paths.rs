//! Where files are when nobody says.

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
