//! Other people's programs that read what gpuwhy writes, or what it reads.

use crate::support::unavailable;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A Python with the readers, from `scripts/readers.sh`; nothing, and a skip, where they cannot be had.
pub(crate) fn readers(test: &str) -> Option<&'static Path> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let python = PYTHON.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/readers.sh");
        let output = Command::new(script).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
            false => Err(format!(
                "the readers cannot be installed: {}",
                String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
            )),
        }
    });
    match python {
        Ok(python) => Some(python),
        Err(why) => {
            unavailable(test, why);
            None
        }
    }
}
