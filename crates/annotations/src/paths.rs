//! Where the socket is.

use std::path::PathBuf;

/// Names the socket for programs; `gpuwhy trace --annotate -- CMD` sets it for the command.
pub const ENVIRONMENT: &str = "GPUWHY_ANNOTATE";
const OF_ROOT: &str = "/run/gpuwhy/annotate.sock";

/// Where a trace of this user listens when nobody says; nothing where the user has no folder for such things.
pub fn default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() { Some(OF_ROOT.into()) } else { of_user() }
}

/// Where to look for a trace, the likelier first.
pub fn paths_to_try() -> Vec<PathBuf> {
    match std::env::var_os(ENVIRONMENT).filter(|path| !path.is_empty()) {
        Some(path) => vec![path.into()],
        None => of_user().into_iter().chain([OF_ROOT.into()]).collect(),
    }
}

fn of_user() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    folder.is_absolute().then(|| folder.join("gpuwhy/annotate.sock"))
}
