//! Who is on the other end, and whom he may speak for.

use crate::spans::About;
use crate::{Refusal, Subject};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::os::fd::AsFd;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// Nothing where it is in a place whose processes cannot be seen from here.
    pid: Option<u32>,
    uid: u32,
}

impl Peer {
    /// As the kernel tells: who connected, at the time when he did.
    pub(crate) fn of(stream: &impl AsFd) -> Option<Peer> {
        let peer = getsockopt(stream, PeerCredentials).ok()?;
        // Zero is nobody here: someone in a namespace beside this one.
        Some(Peer { pid: u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0), uid: peer.uid() })
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Root and whoever traces may mark everything, others what is theirs.
    pub(crate) fn about(
        &self,
        subject: Subject,
        tracer: u32,
        uid_of: impl Fn(u32) -> Option<u32>,
    ) -> Result<About, Refusal> {
        let may_all = self.uid == 0 || self.uid == tracer;
        let uid = if may_all { 0 } else { self.uid };
        match subject {
            Subject::Own => Ok(About { pid: self.pid, uid: self.uid }),
            Subject::All => Ok(About { pid: None, uid }),
            Subject::Process(pid) if self.pid == Some(pid) => Ok(About { pid: Some(pid), uid: self.uid }),
            Subject::Process(pid) => match uid_of(pid) {
                None => Err(Refusal::NoProcess(pid)),
                Some(owner) if may_all || owner == self.uid => Ok(About { pid: Some(pid), uid: owner }),
                Some(_) => Err(Refusal::NotTheirs(pid)),
            },
        }
    }
}

/// The real user of a process. Not the owner of its folder in /proc: that is root for those that must not be looked at.
pub(crate) fn uid_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const TRACER: u32 = 500;

    fn owners(pid: u32) -> Option<u32> {
        match pid {
            1 => Some(0),
            10 | 11 => Some(1000),
            20 => Some(2000),
            _ => None,
        }
    }

    #[test]
    fn users_speak_for_themselves_and_root_for_all() {
        let user = Peer { pid: Some(10), uid: 1000 };
        let ask = |peer: &Peer, subject| peer.about(subject, TRACER, owners);
        assert_eq!(ask(&user, Subject::Own), Ok(About { pid: Some(10), uid: 1000 }));
        assert_eq!(ask(&user, Subject::All), Ok(About { pid: None, uid: 1000 }));
        assert_eq!(ask(&user, Subject::Process(11)), Ok(About { pid: Some(11), uid: 1000 }));
        assert_eq!(ask(&user, Subject::Process(20)), Err(Refusal::NotTheirs(20)));
        assert_eq!(ask(&user, Subject::Process(1)), Err(Refusal::NotTheirs(1)));
        assert_eq!(ask(&user, Subject::Process(99)), Err(Refusal::NoProcess(99)));
        for uid in [0, TRACER] {
            let root = Peer { pid: Some(5), uid };
            assert_eq!(ask(&root, Subject::Process(20)), Ok(About { pid: Some(20), uid: 2000 }));
            assert_eq!(ask(&root, Subject::All), Ok(About { pid: None, uid: 0 }));
        }
    }

    #[test]
    fn the_kernel_tells_who_it_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
        assert_eq!(Some(peer.uid), uid_of(std::process::id()));
        assert_eq!(uid_of(u32::MAX), None);
    }
}
