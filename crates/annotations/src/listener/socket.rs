//! The socket's file: made, opened to all, and taken away again.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Of the file, so that no other is taken away.
    id: (u64, u64),
}

impl Socket {
    pub(super) fn open(path: &Path) -> io::Result<Socket> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        listener.set_nonblocking(true)?;
        open_to_all(path)?;
        let metadata = fs::symlink_metadata(path)?;
        Ok(Socket { listener, path: path.into(), id: (metadata.dev(), metadata.ino()) })
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let same = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino()) == self.id;
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| same(&metadata)) {
            // One that stays is stale, and no hindrance.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a trace left that was killed.
fn remove_stale(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket is there"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::Error::new(ErrorKind::AddrInUse, "another trace listens there")),
    }
}

/// Everybody may connect: the kernel says who it is, and that decides. By a descriptor of the very file: its name may be
/// given to another meanwhile.
fn open_to_all(path: &Path) -> io::Result<()> {
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "the socket was replaced by something else"));
    }
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), fs::Permissions::from_mode(0o666))
}
