//! What an ELF file tells of the Python in it.

use crate::Version;
use gpuwhy_elf::{Bytes, Layout, Part, Table, find_symbols};
use gpuwhy_proc::{Mapping, TargetFile};
use memchr::memmem;
use std::fs::File;

/// Constants are searched for the version no further than this, and no more of them than this are held at a time.
const MAX_CONSTANT_BYTES: u64 = 64 << 20;
const PIECE_BYTES: u64 = 1 << 20;
/// The longest text of a version, such as `3.13.0rc2+`, with what comes before and after it.
const MAX_VERSION_BYTES: u64 = 16;

/// An interpreter's file. Addresses are the file's own.
#[derive(Debug)]
pub(crate) struct PythonFile {
    pub(crate) runtime: Option<u64>,
    /// The file's own word for it; its name may say more.
    pub(crate) version: Option<Version>,
    segments: Vec<Part>,
}

impl PythonFile {
    /// `named`: what the file's name says of the version, where it does. Nothing if it is no ELF file.
    pub(crate) fn read(file: &TargetFile, named: Option<Version>) -> Option<Self> {
        let file = file.file();
        let layout = Layout::read(file)?;
        let wanted = ["_PyRuntime", "Py_Version"];
        let symbols = find_symbols(file, &layout, &[Table::Dynamic, Table::Full], &wanted).symbols;
        let address = |name: &str| symbols.get(name).map(|found| found.address);
        let runtime = address("_PyRuntime")
            // 3.10 and newer have it in a section of its own, which `strip` leaves.
            .or_else(|| layout.python_runtime.map(|section| section.address))
            .filter(|address| *address != 0);
        let version = runtime.and_then(|_| match address("Py_Version") {
            Some(address) => {
                let bytes = file.bytes(layout.offset_of(address)?, 4)?;
                Some(Version::from_hex(u32::from_le_bytes(bytes.try_into().ok()?).into(), false))
            }
            None => version_among_constants(file, &layout, named),
        });
        Some(Self { runtime, version, segments: layout.segments })
    }

    /// How far from its own addresses the file was loaded; `mappings` are of this file, lowest first.
    pub(crate) fn bias(&self, mappings: &[&Mapping]) -> Option<u64> {
        mappings.iter().find_map(|mapping| {
            let segment = self.segments.iter().find(|segment| {
                // The kernel maps whole pages.
                let first = segment.offset & !0xfff;
                (first..segment.offset.saturating_add(segment.size)).contains(&mapping.offset)
            })?;
            let at_zero = mapping.start.wrapping_sub(mapping.offset);
            Some(at_zero.wrapping_add(segment.offset).wrapping_sub(segment.address))
        })
    }
}

/// Where there is no `Py_Version` (3.11 and newer have it): from the texts among the constants, of which the name may say
/// which.
fn version_among_constants(file: &File, layout: &Layout, named: Option<Version>) -> Option<Version> {
    let constants = layout.constants.filter(|section| section.size <= MAX_CONSTANT_BYTES);
    let constants = constants.unwrap_or_default();
    let mut found: Vec<Version> = Vec::new();
    let mut at = 0;
    while at < constants.size {
        // Pieces overlap, so that no text is cut.
        let from = at.saturating_sub(1);
        let size = (PIECE_BYTES + MAX_VERSION_BYTES).min(constants.size - from);
        let Some(bytes) = constants.offset.checked_add(from).and_then(|offset| file.bytes(offset, size))
        else {
            break;
        };
        found.extend(versions_in(&bytes));
        at += PIECE_BYTES;
    }
    found.retain(|version| {
        named.map_or((9..=14).contains(&version.minor), |named| named.minor == version.minor)
    });
    found.sort();
    found.dedup();
    match found.as_slice() {
        [version] => Some(*version),
        _ => named,
    }
}

fn versions_in(constants: &[u8]) -> Vec<Version> {
    let is_of_version = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+');
    memmem::find_iter(constants, b"3.")
        // The linker may have made it the end of another text, such as a path.
        .filter(|at| at.checked_sub(1).is_none_or(|before| !is_of_version(&constants[before])))
        .filter_map(|at| {
            constants[at..].iter().take(13).position(|byte| *byte == 0).map(|end| &constants[at..at + end])
        })
        .filter(|text| text.len() >= 5 && text.iter().all(is_of_version))
        .filter_map(Version::from_text)
        .collect()
}
