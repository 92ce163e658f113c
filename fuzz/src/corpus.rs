//! Inputs in files.

use crate::Target;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The seeds of a target in the repository.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// All inputs of a folder, by name; none where it is not there.
pub fn read(folder: &Path) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().filter(|path| path.is_file()).map(|path| Ok((path.clone(), fs::read(&path)?))).collect()
}

/// Keeps an input that failed; says how to run it again.
pub fn save(folder: &Path, target: &Target, input: &[u8]) -> String {
    let path = folder.join(format!("{}-{:016x}", target.name, hash(input)));
    match fs::create_dir_all(folder).and_then(|()| fs::write(&path, input)) {
        Ok(()) => format!("kept; run it again with: gpuwhy-fuzz {} {}", target.name, path.display()),
        Err(error) => format!("{} cannot be written: {error}", path.display()),
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
