//! Where files are when nobody says.

use std::path::PathBuf;

pub(crate) fn default_trace() -> PathBuf {
    folder().join("trace.db")
}

/// Of what waits to be sent to a fleet.
pub(crate) fn default_spool() -> PathBuf {
    folder().join("fleet")
}

/// `/var/lib/gpuwhy` for root, else below the user's data folder.
fn folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/gpuwhy");
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("gpuwhy")
}
