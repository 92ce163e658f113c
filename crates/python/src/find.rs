//! The interpreter of a process.

use crate::elf::PythonFile;
use crate::memory::is_address;
use crate::offsets::{layout_of, published_layout, published_version};
use crate::{Layout, Memory, ProcessMemory, PythonError, Version};
use gpuwhy_proc::{Mapping, Maps, TargetFile};
use std::fs;
use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    pub version: Version,
    /// Address of `_PyRuntime` in the process.
    pub runtime: u64,
    pub layout: Layout,
    /// The executable or library it is in, as the process sees it.
    pub file: String,
    /// Its memory of files on disks, which may be read though nobody has yet.
    pub on_disk: Vec<Range<u64>>,
}

/// The interpreter that runs in a process, from its files and its memory. `None`: there is no Python in it. An error:
/// there is one, but it cannot be read.
pub fn find(pid: u32) -> Result<Option<Interpreter>, PythonError> {
    let maps = Maps::of(pid).map_err(|why| PythonError::Unreadable { pid, why })?;
    let mappings: Vec<Mapping> = maps.iter().filter(Mapping::is_file).collect();
    let mut trouble = None;
    for candidate in candidates(pid, &mappings) {
        match candidate.interpreter(pid) {
            Ok(Some(interpreter)) => return Ok(Some(interpreter)),
            Ok(None) => {}
            Err(error) => trouble = trouble.or(Some(error)),
        }
    }
    trouble.map_or(Ok(None), Err)
}

/// A mapped file that may be an interpreter.
struct Candidate<'a> {
    mappings: Vec<&'a Mapping>,
    named: Option<Version>,
}

/// Libraries first: the executable beside one is a stub. Then what is named like Python, wherever the process began (a
/// dynamic loader that was given the program is its own executable). Last the executable itself, whatever its name:
/// programs embed Python.
fn candidates<'a>(pid: u32, mappings: &'a [Mapping]) -> Vec<Candidate<'a>> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let exe = exe.to_string_lossy();
    let exe = exe.strip_suffix(" (deleted)").unwrap_or(&exe);
    let mut ranked: Vec<(u8, &Mapping)> = mappings
        .iter()
        .filter_map(|mapping| {
            let name = mapping.name();
            let rank = match name {
                _ if name.starts_with("libpython3") => 0,
                _ if Version::from_name(name).is_some() => 1,
                _ if mapping.path == exe => 2,
                _ => return None,
            };
            Some((rank, mapping))
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut found: Vec<Candidate<'_>> = Vec::new();
    for (_, mapping) in ranked {
        let same = |known: &&mut Candidate<'_>| {
            known.mappings.iter().any(|other| (&other.path, other.file) == (&mapping.path, mapping.file))
        };
        match found.iter_mut().find(same) {
            Some(known) => known.mappings.push(mapping),
            None => {
                let named = Version::from_name(mapping.name());
                found.push(Candidate { mappings: vec![mapping], named });
            }
        }
    }
    found
}

impl Candidate<'_> {
    fn interpreter(&self, pid: u32) -> Result<Option<Interpreter>, PythonError> {
        let Some(first) = self.mappings.first() else { return Ok(None) };
        let file = first.path.clone();
        let trouble = |why: String| match self.named {
            Some(_) => Err(PythonError::File { file: file.clone(), why }),
            None => Ok(None),
        };
        let Some(opened) = TargetFile::mapped(pid, first) else {
            return trouble("it cannot be opened, or is not the file that was mapped".to_string());
        };
        let named = self.named;
        let Some(elf) = gpuwhy_confine::parse(move || PythonFile::read(&opened, named)) else {
            return trouble("reading it failed; this is a fault of gpuwhy's own".to_string());
        };
        let Some(elf) = elf else { return trouble("it is no ELF file of this machine".to_string()) };
        let Some(runtime) = elf.runtime else {
            return match self.named {
                Some(version) if layout_of(&version).is_none() => Err(PythonError::Unknown { version, file }),
                Some(_) => Err(PythonError::NoRuntime { file }),
                None => Ok(None),
            };
        };
        let Some(bias) = elf.bias(&self.mappings) else {
            return Err(PythonError::File { file, why: "it is not mapped as its headers say".to_string() });
        };
        let on_disk: Vec<Range<u64>> = self.mappings.iter().filter_map(|mapping| mapping.on_disk()).collect();
        let memory = ProcessMemory::open(pid).map_err(|why| PythonError::Unreadable { pid, why })?;
        let memory = memory.fetching(on_disk.clone());
        let version = elf.version.or(self.named);
        let read = move || Interpreter::at(&memory, runtime.wrapping_add(bias), version, file);
        let found = gpuwhy_confine::parse(read).transpose()?;
        Ok(found.map(|found| Interpreter { on_disk, ..found }))
    }
}

impl Interpreter {
    pub(crate) fn at(
        memory: &impl Memory,
        runtime: u64,
        reported: Option<Version>,
        file: String,
    ) -> Result<Self, PythonError> {
        if !is_address(runtime) {
            return Err(PythonError::NoRuntime { file });
        }
        let published = published_version(memory, runtime);
        let Some(version) = published.or(reported) else { return Err(PythonError::NoVersion { file }) };
        let Some(layout) = layout_of(&version) else { return Err(PythonError::Unknown { version, file }) };
        if version.minor < 13 {
            return Ok(Self { version, runtime, layout, file, on_disk: Vec::new() });
        }
        if published.is_none() {
            return Err(PythonError::Strange { version, file, why: "it publishes no offsets" });
        }
        match published_layout(memory, runtime, &version, layout) {
            Ok(layout) => Ok(Self { version, runtime, layout, file, on_disk: Vec::new() }),
            Err(why) => Err(PythonError::Strange { version, file, why }),
        }
    }
}
