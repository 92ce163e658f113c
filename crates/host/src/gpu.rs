//! The GPUs and the driver, as the driver itself tells in /proc.

use std::fs;
use std::path::Path;

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

/// Character devices through which programs talk to GPU drivers, by major number: an ioctl's file is told by it.
/// `drm` is every display's, so it is one of these only where AMD's compute driver is.
pub fn nvidia_device_majors() -> Vec<(u32, String)> {
    let devices = fs::read_to_string("/proc/devices").unwrap_or_default();
    parse_majors(&devices, Path::new("/sys/class/kfd").exists())
}

fn parse_majors(devices: &str, has_kfd: bool) -> Vec<(u32, String)> {
    devices
        .lines()
        .skip_while(|line| !line.starts_with("Character devices"))
        .take_while(|line| !line.starts_with("Block devices"))
        .filter_map(|line| {
            let (major, name) = line.trim().split_once(' ')?;
            Some((major.parse().ok()?, name.trim()))
        })
        .filter(|(_, name)| name.starts_with("nvidia") || *name == "kfd" || (*name == "drm" && has_kfd))
        .map(|(major, name)| (major, name.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_gpu_drivers_are_found() {
        let devices = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n234 nvidia-caps\n\
                       511 nvidia-uvm\n509 kfd\n\nBlock devices:\n  8 sd\n259 nvidia-not\n";
        let names = |has_kfd| -> Vec<String> {
            parse_majors(devices, has_kfd).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(false), ["nvidia", "nvidiactl", "nvidia-caps", "nvidia-uvm", "kfd"]);
        assert_eq!(names(true), ["nvidia", "nvidiactl", "drm", "nvidia-caps", "nvidia-uvm", "kfd"]);
        assert!(parse_majors(devices, false).contains(&(511, "nvidia-uvm".to_string())));
        assert!(parse_majors("", true).is_empty());
    }

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
