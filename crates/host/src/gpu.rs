//! The GPUs and the driver, as the driver itself tells in /proc.

use std::fs;

/// Version of the loaded NVIDIA kernel driver.
pub fn driver_version() -> Option<String> {
    parse_version(&fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build`
fn parse_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(is_version).map(ToString::to_string)
}

/// Model names, in the order of their bus addresses.
pub fn gpus() -> Vec<String> {
    let Ok(folder) = fs::read_dir("/proc/driver/nvidia/gpus") else { return Vec::new() };
    let mut paths: Vec<_> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(path.join("information")).ok())
        .filter_map(|text| {
            Some(text.lines().find_map(|line| line.strip_prefix("Model:"))?.trim().to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_both_drivers_words() {
        for text in [
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Thu Oct 1 2026",
        ] {
            assert_eq!(parse_version(text).as_deref(), Some("580.159.04"));
        }
        assert_eq!(parse_version(""), None);
    }
}
