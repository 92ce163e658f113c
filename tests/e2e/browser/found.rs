//! Where Python with Playwright and axe is, and the system's Chromium: one look for all tests of a program.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Both, or why they cannot be had.
pub(crate) fn browser() -> &'static Result<(PathBuf, PathBuf), String> {
    static BROWSER: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    BROWSER.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/browser.sh");
        let output = Command::new(script).output().map_err(|error| error.to_string())?;
        let message = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = message.lines().map(PathBuf::from);
        match (output.status.success(), lines.next(), lines.next()) {
            (true, Some(python), Some(chromium)) => Ok((python, chromium)),
            _ => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        }
    })
}
