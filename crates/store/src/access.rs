//! Who may read what we write. Traces have command lines, paths and the code of whoever was traced: they are their owner's, and a
//! group's where one is named.

use rustix::fs::{Gid, Mode, chown, fchmod, fchown};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// The number of the group that may read, too.
    pub group: Option<u32>,
}

impl Access {
    pub fn file_mode(self) -> u32 {
        if self.group.is_some() { 0o640 } else { 0o600 }
    }

    pub fn folder_mode(self) -> u32 {
        if self.group.is_some() { 0o750 } else { 0o700 }
    }

    /// Gives a file that is open these rights, whatever it had.
    pub fn set(self, file: &File) -> io::Result<()> {
        if let Some(group) = self.group {
            fchown(file, None, Some(Gid::from_raw(group)))?;
        }
        Ok(fchmod(file, Mode::from_raw_mode(self.file_mode()))?)
    }

    /// A new file; there must be none of its name.
    pub fn create_new(self, path: &Path) -> io::Result<File> {
        // Never more than in the end, not even for a moment.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        self.set(&file)?;
        Ok(file)
    }

    /// Rights of a folder that was just made.
    pub fn set_folder(self, path: &Path) -> io::Result<()> {
        if let Some(group) = self.group {
            chown(path, None, Some(Gid::from_raw(group)))?;
        }
        std::fs::set_permissions(path, Permissions::from_mode(self.folder_mode()))
    }

    /// A folder and those on the way to it; those that are there stay as they are.
    pub fn create_folders(self, path: &Path) -> io::Result<()> {
        let missing: Vec<PathBuf> = path
            .ancestors()
            .filter(|folder| !folder.as_os_str().is_empty())
            .take_while(|folder| !folder.exists())
            .map(Path::to_path_buf)
            .collect();
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        missing.iter().rev().try_for_each(|folder| self.set_folder(folder))
    }
}
