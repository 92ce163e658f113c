//! Files that are made whole or not at all: written beside their place, and moved there when they are done. They say as much as the
//! trace they are made from, so they are for the same eyes.

use crate::failure::Failure;
use gpuwhy_store::Access;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile, TempDir};

/// Refuses what is there already, unless it may be replaced, and what was read from in any case.
pub(crate) fn free(path: &Path, force: bool, sources: &[&Path]) -> Result<(), Failure> {
    let shown = path.display();
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unwritable(path, &error)),
        Ok(there) => there,
    };
    let inode = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let mine = fs::metadata(path).ok().map(|metadata| inode(&metadata));
    let same = |source: &Path| {
        fs::metadata(source)
            .is_ok_and(|source| Some(inode(&source)) == mine || inode(&source) == inode(&there))
    };
    if sources.iter().any(|source| same(source)) {
        return Err(Failure::Usage(format!("{shown} is the trace itself; write to another file")));
    }
    match force {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "{shown} is there already; write elsewhere, or replace it with --force"
        ))),
    }
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            "its folder does not exist; create it first".to_string()
        }
        io::ErrorKind::PermissionDenied => "permission denied; write elsewhere".into(),
        io::ErrorKind::IsADirectory => "it is a folder; name a file in it".into(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; free space, or write elsewhere".into()
        }
        _ => format!("{error}; write elsewhere"),
    };
    Failure::Failed(format!("{} cannot be written: {what}", path.display()))
}

/// The folder a path is in.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.into(),
        _ => PathBuf::from("."),
    }
}

/// A file that goes unless it is kept.
pub(crate) fn file(path: &Path, access: Access) -> Result<NamedTempFile, Failure> {
    if path.is_dir() {
        return Err(unwritable(path, &io::ErrorKind::IsADirectory.into()));
    }
    let fail = |error: io::Error| unwritable(path, &error);
    let mode = Permissions::from_mode(0o600);
    let made = Builder::new().prefix(".gpuwhy-").permissions(mode).tempfile_in(folder(path)).map_err(fail)?;
    access.set(made.as_file()).map_err(fail)?;
    Ok(made)
}

/// It was made: it gets its name.
pub(crate) fn keep(file: NamedTempFile, path: &Path, force: bool) -> Result<(), Failure> {
    let kept = if force { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::Failed(format!("{} came to be meanwhile; write elsewhere", path.display()))
        }
        _ => unwritable(path, &error.error),
    })
}

/// A folder that goes unless it is kept.
pub(crate) fn new_folder(path: &Path, access: Access) -> Result<TempDir, Failure> {
    let fail = |error: io::Error| unwritable(path, &error);
    let mode = Permissions::from_mode(0o700);
    let made = Builder::new().prefix(".gpuwhy-").permissions(mode).tempdir_in(folder(path)).map_err(fail)?;
    access.set_folder(made.path()).map_err(fail)?;
    Ok(made)
}

/// A folder that is replaced holds nothing but files of this ending.
pub(crate) fn replaceable(path: &Path, ending: &str) -> Result<(), Failure> {
    let fail = |error: io::Error| unwritable(path, &error);
    if !path.is_dir() {
        return match path.exists() {
            true => {
                Err(Failure::Failed(format!("{} is a file, not a folder; write elsewhere", path.display())))
            }
            false => Ok(()),
        };
    }
    for entry in fs::read_dir(path).map_err(fail)? {
        if entry.map_err(fail)?.path().extension().is_none_or(|own| own != ending) {
            return Err(Failure::Failed(format!(
                "{} holds other things than .{ending} files, so it is not replaced; write elsewhere",
                path.display()
            )));
        }
    }
    Ok(())
}

/// It was made: it gets its name, and what had it goes.
pub(crate) fn keep_folder(made: TempDir, path: &Path, ending: &str) -> Result<(), Failure> {
    let fail = |error: io::Error| unwritable(path, &error);
    replaceable(path, ending)?;
    let old = match path.is_dir() {
        false => None,
        true => {
            let aside = new_folder(path, Access::default())?;
            fs::rename(path, aside.path().join("old")).map_err(fail)?;
            Some(aside)
        }
    };
    if let Err(error) = fs::rename(made.path(), path) {
        if let Some(old) = &old {
            let _ = fs::rename(old.path().join("old"), path);
        }
        return Err(fail(error));
    }
    // It has its name; there is nothing to clear away any more.
    let _ = made.keep();
    Ok(())
}
