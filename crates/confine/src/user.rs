//! The user that a thread runs as which needs nothing of root's. Users are a thread's own in the kernel.

use rustix::process::{DumpableBehavior, Gid, Pid, Uid, geteuid, getpid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::sync::OnceLock;

/// Made by whoever installs the agent, if they want to see it by name.
const NAME: &str = "gpuwhy";
/// The first of the user ids that no system gives to anybody: above those of containers, below 2^31. It is counted up by
/// the process, so that no two agents share a user.
const FIRST_FREE: u32 = 0x7000_0000;

/// Becomes the agent's own user, without groups. Whether that was possible: it is nothing for who is not root.
///
/// `unprivileged` would not do: its other processes may send signals to a thread that is theirs, and so end the agent.
pub(crate) fn change() -> bool {
    static OWN: OnceLock<(u32, u32)> = OnceLock::new();
    if !geteuid().is_root() {
        return false;
    }
    let passwords = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let (uid, gid) = *OWN.get_or_init(|| own(&passwords(), getpid()));
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let changed = set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid));
    // Who has the same user may not look into the agent's memory by way of this thread.
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    changed.is_ok() && hidden.is_ok()
}

fn own(passwords: &str, process: Pid) -> (u32, u32) {
    let ids = |line: &str| {
        let mut fields = line.strip_prefix(NAME)?.strip_prefix(':')?.split(':').skip(1);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (uid != 0 && gid != 0).then_some((uid, gid))
    };
    let free = FIRST_FREE + process.as_raw_nonzero().get().unsigned_abs();
    passwords.lines().find_map(ids).unwrap_or((free, free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_that_name_is_used_unless_it_is_root() {
        let process = Pid::from_raw(7).unwrap();
        let users = "root:x:0:0:root:/root:/bin/sh\ngpuwhys:x:5:5::/:\ngpuwhy:x:998:997::/:/bin/false\n";
        assert_eq!(own(users, process), (998, 997));
        let free = (0x7000_0007, 0x7000_0007);
        assert_eq!(own("gpuwhy:x:0:0::/:\n", process), free);
        assert_eq!(own("gpuwhy:x:many\n", process), free);
    }
}
