//! Where trace files are when nobody says.

use std::path::PathBuf;

/// `/var/lib/gpuwhy/trace.db` for root, else below the user's data folder.
pub(crate) fn default_trace() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/gpuwhy/trace.db");
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share")));
    data.unwrap_or_else(|| PathBuf::from(".")).join("gpuwhy/trace.db")
}
