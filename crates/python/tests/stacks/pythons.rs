//! Which interpreters there are to test with.

use std::path::{Path, PathBuf};
use std::process::Command;

const SYSTEM: &str = "/usr/bin/python3";

/// Commands, each once.
pub(crate) fn pythons() -> Vec<String> {
    let mut found = Vec::new();
    let in_path = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    if let Ok(output) = in_path
        && output.status.success()
    {
        found.push(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    // The distribution's own is one program, where the first may be a library's.
    found.extend(Path::new(SYSTEM).is_file().then(|| SYSTEM.to_string()));
    let named = std::env::var("GPUWHY_PYTHONS").unwrap_or_default();
    found.extend(named.split(':').filter(|command| !command.is_empty()).map(str::to_string));
    let folders = std::fs::read_dir(cache_folder());
    let mut fetched: Vec<String> = folders
        .into_iter()
        .flatten()
        .filter_map(|folder| Some(folder.ok()?.path().join("python")))
        .filter(|command| command.is_file())
        .map(|command| command.display().to_string())
        .collect();
    if fetched.is_empty() && named.is_empty() {
        println!("other Pythons are not tested: scripts/pythons.sh fetches some");
    }
    fetched.sort();
    found.extend(fetched);
    found.dedup();
    found
}

/// Where `scripts/pythons.sh` puts what it fetches.
pub(crate) fn cache_folder() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.unwrap_or_default().join("gpuwhy/pythons")
}
