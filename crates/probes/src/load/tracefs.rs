//! Numbers of kernel tracepoints, which tracefs tells. Where it is not mounted a private mount is made that nobody sees.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSOPEN_CLOEXEC: libc::c_uint = 1;

/// The number of `category/name`, or why there is none.
pub(super) fn event_id(category: &str, name: &str) -> Result<u64, NoEvent> {
    let path = format!("events/{category}/{name}/id");
    for root in USUAL {
        if std::path::Path::new(root).join("events").exists() {
            return parse(std::fs::read_to_string(format!("{root}/{path}")));
        }
    }
    let mount = private_mount().map_err(|error| NoEvent::NoTracefs(error.to_string()))?;
    parse(read_at(&mount, &path))
}

pub(super) enum NoEvent {
    /// The kernel, or a module that is not loaded, does not have it.
    Absent,
    NoTracefs(String),
}

fn parse(text: io::Result<String>) -> Result<u64, NoEvent> {
    match text {
        Ok(text) => text.trim().parse().map_err(|_| NoEvent::Absent),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NoEvent::Absent),
        Err(error) => Err(NoEvent::NoTracefs(error.to_string())),
    }
}

/// A mount of tracefs that is in no folder, and gone with its descriptor.
fn private_mount() -> io::Result<OwnedFd> {
    const TRACEFS: &CStr = c"tracefs";
    // SAFETY: the name outlives the call.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, TRACEFS.as_ptr(), FSOPEN_CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes no key and no value.
    let made =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no pointers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn read_at(folder: &OwnedFd, path: &str) -> io::Result<String> {
    let path = CString::new(path)?;
    // SAFETY: the path outlives the call.
    let fd = unsafe { libc::openat(folder.as_raw_fd(), path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let mut text = String::new();
    File::from(owned(fd.into())?).read_to_string(&mut text)?;
    Ok(text)
}
