//! Finding the GPU libraries: those mapped now, those about to be mapped by the command, and those mapped later.

use crate::Config;
use gpuwhy_host::{Program, candidate_folders, mapped_file, mapped_files, nvidia_device_majors, pids};
use gpuwhy_probes::{Device, Engine, Library, LibraryFile, Mapped};
use gpuwhy_proc::{MappedFile, TargetFile};
use std::fs;
use std::path::Path;

/// What the processes that were asked for by name map now.
pub(crate) fn of_asked(config: &Config) -> Vec<LibraryFile> {
    let mut files: Vec<LibraryFile> = mapped_libraries(config.pids.iter().copied()).collect();
    if let Some(folder) = &config.cgroup {
        files.extend(mapped_libraries(gpuwhy_host::processes_in(folder).unwrap_or_default()));
    }
    files
}

/// What else can be found at the start: what others map, where everybody is traced, and what lies where programs look.
pub(crate) fn of_others(config: &Config) -> Vec<LibraryFile> {
    let mut files: Vec<LibraryFile> = Vec::new();
    if config.traces_everyone() {
        files.extend(mapped_libraries(pids()));
        files.extend(in_folders(None));
    }
    if let Some(words) = &config.command {
        files.extend(in_folders(Some(&Program::inheriting(words))));
    }
    files
}

/// The GPU drivers' device files. The numbers of NVIDIA's are shared by its GPUs and the one that controls them.
pub(crate) fn driver_devices(config: &Config) -> Vec<Device> {
    const NVIDIA: u32 = 195;
    const CONTROL: u32 = 255;
    let mut devices = config.devices.clone();
    for (major, name) in nvidia_device_majors() {
        if major == NVIDIA {
            devices.push(Device { name: "nvidiactl".into(), major, minor: Some(CONTROL) });
            devices.push(Device { name: "nvidia".into(), major, minor: None });
        } else {
            devices.push(Device { name, major, minor: None });
        }
    }
    devices.dedup();
    devices
}

/// What processes that are traced map now.
pub(crate) fn of_running(config: &Config, engine: &Engine) -> Vec<LibraryFile> {
    let is_traced = |pid: &u32| config.traces_everyone() || engine.is_target(*pid);
    mapped_libraries(pids().into_iter().filter(is_traced)).collect()
}

/// The library a fresh mapping is of.
pub(crate) fn of_mapping(mapped: &Mapped) -> Option<LibraryFile> {
    from_mapping(mapped_file(mapped.pid, &mapped.mapping)?)
}

/// Files that processes map, or may.
pub(crate) fn from_mappings(files: Vec<MappedFile>) -> Vec<LibraryFile> {
    files.into_iter().filter_map(from_mapping).collect()
}

/// In which order libraries are attached. The collective library has few functions, and a communicator that was made
/// unseen stays unknown. The runtime comes before the driver: its calls must not be taken for calls straight into that.
pub(crate) fn turn(library: Library) -> u8 {
    match library {
        Library::Nccl => 0,
        Library::CudaDriver => 2,
        _ => 1,
    }
}

pub(crate) fn is_library(name: &str) -> bool {
    Library::of_file_name(name).is_some()
}

fn mapped_libraries(pids: impl IntoIterator<Item = u32>) -> impl Iterator<Item = LibraryFile> {
    mapped_files(pids, is_library).into_iter().filter_map(from_mapping)
}

fn from_mapping(file: MappedFile) -> Option<LibraryFile> {
    let library = Library::of_file_name(file.path.rsplit('/').next()?)?;
    Some(LibraryFile { library, file: file.file, shown_path: file.path, pid: Some(file.pid), sites: None })
}

fn in_folders(program: Option<&Program>) -> Vec<LibraryFile> {
    candidate_folders(program)
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| on_disk(&entry.ok()?.path()))
        .collect()
}

/// A library file by its path; links lead to the file itself, known by its inode. Linker stubs are no libraries.
fn on_disk(path: &Path) -> Option<LibraryFile> {
    let library = Library::of_file_name(path.file_name()?.to_str()?)?;
    if path.components().any(|part| part.as_os_str() == "stubs") {
        return None;
    }
    let file = TargetFile::at(path)?;
    Some(LibraryFile { library, file, shown_path: path.display().to_string(), pid: None, sites: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_copies_are_told_apart_by_inode() {
        let folder = std::env::temp_dir().join(format!("gpuwhy-discovery-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("libcudart.so.13.0.88"), b"x").unwrap();
        std::os::unix::fs::symlink("libcudart.so.13.0.88", folder.join("libcudart.so.13")).unwrap();
        fs::write(folder.join("libcudart.so.12"), b"y").unwrap();
        let id = |name: &str| on_disk(&folder.join(name)).unwrap().file.id();
        assert_eq!(id("libcudart.so.13"), id("libcudart.so.13.0.88"));
        assert_ne!(id("libcudart.so.13"), id("libcudart.so.12"));
        assert!(on_disk(&folder.join("libcudart.so.99")).is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
