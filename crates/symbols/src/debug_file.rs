//! Debug information that was split off into a file of its own.

use std::fs::File;

use gpuwhy_elf::{Bytes, Layout};

/// A file without a build id is told by its checksum, which has to be worked out; not of files larger than this.
const LARGEST_SUMMED: u64 = 256 << 20;

/// Where debuggers look for what was split off from the file at a path of the process.
pub(crate) fn candidates(layout: &Layout, path: &str) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some((first, rest)) = layout.build_id.as_deref().and_then(<[u8]>::split_first) {
        paths.push(format!("/usr/lib/debug/.build-id/{first:02x}/{}.debug", hex(rest)));
    }
    if let Some((name, _)) = &layout.debug_link {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        paths.push(format!("{folder}/{name}"));
        paths.push(format!("{folder}/.debug/{name}"));
        paths.push(format!("/usr/lib/debug{folder}/{name}"));
    }
    paths
}

/// Whether the file is the other half of this one.
pub(crate) fn matching(layout: &Layout, file: File) -> Option<(File, Layout)> {
    let found = Layout::read(&file)?;
    let same = match (&layout.build_id, &found.build_id) {
        (Some(ours), Some(its)) => ours == its,
        _ => layout.debug_link.as_ref().is_some_and(|(_, sum)| checksum(&file) == Some(*sum)),
    };
    (same && found.has_debug_info).then_some((file, found))
}

fn checksum(file: &File) -> Option<u32> {
    let size = Bytes::size(file);
    (size <= LARGEST_SUMMED).then_some(())?;
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < size {
        let chunk = file.bytes(at, (size - at).min(1 << 20))?;
        hasher.update(&chunk);
        at += chunk.len() as u64;
    }
    Some(hasher.finalize())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
