//! Python interpreters among the running processes.

use crate::pids;
use std::collections::BTreeMap;
use std::fs;

/// Running interpreters by version: `3.12` to the processes that run it. Nothing of them is executed.
pub fn python_processes() -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for pid in pids() {
        let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) else { continue };
        let name = exe.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(version) = version_of(&name) {
            found.entry(version).or_default().push(pid);
        }
    }
    found
}

/// `python3.12`, `python3.13t`; a bare `python3` does not say.
fn version_of(name: &str) -> Option<String> {
    let version = name.strip_prefix("python")?;
    let digits = version.strip_suffix('t').unwrap_or(version);
    let (major, minor) = digits.split_once('.')?;
    (major == "3" && minor.parse::<u8>().is_ok()).then(|| version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_by_the_file() {
        assert_eq!(version_of("python3.12").as_deref(), Some("3.12"));
        assert_eq!(version_of("python3.13t").as_deref(), Some("3.13t"));
        assert_eq!(version_of("python3"), None);
        assert_eq!(version_of("pythonic"), None);
    }
}
