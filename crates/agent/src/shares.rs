//! How many library files are attached, by user. Each takes descriptors and probe sites, and anybody may map files named
//! like a GPU library: one user's must not keep out another's.

use gpuwhy_proc::FileId;
use std::collections::HashMap;

/// Real programs of one user map a few: a handful of versions and copies.
const MAX_FILES_OF_USER: usize = 64;
/// Of all users together; root, whose files are not limited otherwise, included.
const MAX_FILES: usize = 512;
/// Processes remembered of a file.
const MAX_PROCESSES: usize = 64;
/// A file that was mapped for so long without a call may be given up for another.
const CALL_WITHIN_NS: u64 = 5_000_000_000;

/// What to do about a file that turned up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Attach,
    /// Detach another one first, which is used less.
    Replace(FileId),
    /// The reason.
    Refuse(String),
}

#[derive(Debug)]
struct Held {
    user: u32,
    /// Those known to map it; none for files that were found in a folder of the host, which stay.
    processes: Vec<u32>,
    since_ns: u64,
    is_called: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    held: HashMap<FileId, Held>,
}

impl Shares {
    /// A file that is to be attached, and the process that maps it with its user; `lives` tells of a process whether it
    /// still runs. What is admitted counts as held.
    pub(crate) fn admit(
        &mut self,
        file: FileId,
        process: Option<(u32, u32)>,
        now_ns: u64,
        lives: impl Fn(u32) -> bool,
    ) -> Admission {
        let user = process.map_or(0, |(_, user)| user);
        let of_user = self.held.values().filter(|held| held.user == user).count();
        let is_users_limit = user != 0 && of_user >= MAX_FILES_OF_USER;
        let mut admission = Admission::Attach;
        if is_users_limit || self.held.len() >= MAX_FILES {
            let among = is_users_limit.then_some(user);
            let of_largest = || if is_users_limit { None } else { self.of_largest(of_user) };
            let Some(other) = self.least_used(among, now_ns, lives).or_else(of_largest) else {
                return Admission::Refuse(if is_users_limit {
                    format!(
                        "user {user} has {of_user} library files attached, all in use; more are not traced"
                    )
                } else {
                    format!("{MAX_FILES} library files are attached, all in use; more are not traced")
                });
            };
            self.held.remove(&other);
            admission = Admission::Replace(other);
        }
        let processes = process.map(|(pid, _)| pid).into_iter().collect();
        self.held.insert(file, Held { user, processes, since_ns: now_ns, is_called: false });
        admission
    }

    /// Another process maps a file that is held.
    pub(crate) fn map(&mut self, file: FileId, pid: u32) {
        let Some(held) = self.held.get_mut(&file) else { return };
        if !held.processes.is_empty()
            && !held.processes.contains(&pid)
            && held.processes.len() < MAX_PROCESSES
        {
            held.processes.push(pid);
        }
    }

    /// A process made its first call; which of its files that was in is not known.
    pub(crate) fn call(&mut self, pid: u32) {
        for held in self.held.values_mut().filter(|held| held.processes.contains(&pid)) {
            held.is_called = true;
        }
    }

    /// A child has what its parent mapped.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        let of_parent: Vec<FileId> = self
            .held
            .iter()
            .filter(|(_, held)| held.processes.contains(&parent))
            .map(|(file, _)| *file)
            .collect();
        for file in of_parent {
            self.map(file, child);
        }
    }

    /// Files whose processes, as far as they are known, have all ended.
    pub(crate) fn ended(&self, lives: impl Fn(u32) -> bool) -> Vec<FileId> {
        let has_ended =
            |held: &Held| !held.processes.is_empty() && !held.processes.iter().any(|pid| lives(*pid));
        self.held.iter().filter(|(_, held)| has_ended(held)).map(|(file, _)| *file).collect()
    }

    /// It is not attached any more.
    pub(crate) fn release(&mut self, file: FileId) {
        self.held.remove(&file);
    }

    /// The newest file of the user who holds most, if that is more than another one would then hold: several users together
    /// cannot keep the others out. Root's files are not limited, and stay.
    fn of_largest(&self, of_newcomer: usize) -> Option<FileId> {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let of_users = || self.held.iter().filter(|(_, held)| held.user != 0);
        of_users().for_each(|(_, held)| *counts.entry(held.user).or_default() += 1);
        let (largest, count) = counts.into_iter().max_by_key(|(user, count)| (*count, *user))?;
        (count > of_newcomer + 1).then_some(())?;
        let (file, _) = of_users()
            .filter(|(_, held)| held.user == largest)
            .max_by_key(|(file, held)| (held.since_ns, file.inode))?;
        Some(*file)
    }

    /// One whose processes have all ended, else one that nobody has called for a while; the oldest first.
    fn least_used(&self, user: Option<u32>, now_ns: u64, lives: impl Fn(u32) -> bool) -> Option<FileId> {
        let candidates = self
            .held
            .iter()
            .filter(|(_, held)| !held.processes.is_empty() && user.is_none_or(|user| held.user == user));
        candidates
            .filter_map(|(file, held)| {
                let has_ended = !held.processes.iter().any(|pid| lives(*pid));
                let is_idle = !held.is_called && now_ns.saturating_sub(held.since_ns) >= CALL_WITHIN_NS;
                (has_ended || is_idle).then_some((!has_ended, held.since_ns, *file))
            })
            .min_by_key(|(lives, since_ns, _)| (*lives, *since_ns))
            .map(|(_, _, file)| file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: u32 = 1000;
    const VICTIM: u32 = 1001;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode }
    }

    /// So many files of a user, each of a process of its own.
    fn full(shares: &mut Shares, user: u32, count: u64, from: u64) {
        for inode in from..from + count {
            let admission = shares.admit(file(inode), Some((inode as u32, user)), inode, |_| true);
            assert_eq!(admission, Admission::Attach);
        }
    }

    #[test]
    fn a_user_with_too_many_files_keeps_nobody_else_out() {
        let mut shares = Shares::default();
        full(&mut shares, STRANGER, MAX_FILES_OF_USER as u64, 0);
        let more = shares.admit(file(9000), Some((9000, STRANGER)), 100, |_| true);
        assert!(matches!(more, Admission::Refuse(reason) if reason.contains("user 1000 has 64")));
        full(&mut shares, VICTIM, 3, 5000);
        full(&mut shares, 0, 100, 6000);
    }

    #[test]
    fn what_ended_goes_first_then_what_was_never_called() {
        let mut shares = Shares::default();
        full(&mut shares, STRANGER, MAX_FILES_OF_USER as u64, 0);
        shares.call(0);
        shares.fork(0, 7000);
        let later = CALL_WITHIN_NS + 1000;
        let next = |shares: &mut Shares, inode: u64, ended: u32| {
            shares.admit(file(inode), Some((inode as u32, STRANGER)), later, |pid| pid != ended)
        };
        assert_eq!(next(&mut shares, 8000, 40), Admission::Replace(file(40)), "its process has ended");
        assert_eq!(
            next(&mut shares, 8001, 0),
            Admission::Replace(file(1)),
            "the first has a child that lives"
        );
        for inode in 2..MAX_FILES_OF_USER as u64 {
            shares.call(inode as u32);
        }
        assert!(matches!(next(&mut shares, 8002, 0), Admission::Refuse(_)), "the new ones have time to call");
    }

    #[test]
    fn files_whose_processes_have_ended_can_be_released() {
        let mut shares = Shares::default();
        full(&mut shares, STRANGER, 3, 0);
        assert_eq!(shares.admit(file(9), None, 0, |_| true), Admission::Attach);
        assert_eq!(shares.ended(|pid| pid != 1), [file(1)]);
        shares.release(file(1));
        assert!(shares.ended(|pid| pid != 1).is_empty());
    }

    #[test]
    fn files_of_the_host_stay_and_all_together_are_limited() {
        let mut shares = Shares::default();
        assert_eq!(shares.admit(file(1), None, 0, |_| true), Admission::Attach);
        full(&mut shares, 0, MAX_FILES as u64 - 1, 100);
        let now = CALL_WITHIN_NS + 1000;
        assert_eq!(shares.admit(file(2), Some((2, VICTIM)), now, |_| true), Admission::Replace(file(100)));
        for pid in 100..100 + MAX_FILES as u32 {
            shares.call(pid);
        }
        let more = shares.admit(file(3), Some((3, VICTIM)), now, |_| true);
        assert!(matches!(more, Admission::Refuse(reason) if reason.starts_with("512 library files")));
    }

    #[test]
    fn several_users_who_hold_everything_make_room_for_one_who_holds_less() {
        let mut shares = Shares::default();
        let strangers = (MAX_FILES / MAX_FILES_OF_USER) as u32;
        for number in 0..strangers {
            let from = u64::from(number) * 1000;
            full(&mut shares, STRANGER + 10 + number, MAX_FILES_OF_USER as u64, from);
        }
        let called: Vec<u32> = shares.held.values().flat_map(|held| held.processes.clone()).collect();
        called.into_iter().for_each(|pid| shares.call(pid));
        let next = |shares: &mut Shares, inode: u64, user: u32| {
            shares.admit(file(inode), Some((inode as u32, user)), 90_000, |_| true)
        };
        for inode in 20_000..20_040 {
            let admission = next(&mut shares, inode, VICTIM);
            assert!(matches!(admission, Admission::Replace(taken) if taken.inode < 20_000), "{admission:?}");
        }
        let of = |shares: &Shares, user: u32| shares.held.values().filter(|held| held.user == user).count();
        assert_eq!((shares.held.len(), of(&shares, VICTIM)), (MAX_FILES, 40));
        let largest = (0..strangers).map(|number| of(&shares, STRANGER + 10 + number)).max();
        assert_eq!(largest, Some(59), "each gave its part");
        let admitted = (0..100)
            .filter(|number| !matches!(next(&mut shares, 30_000 + number, VICTIM), Admission::Refuse(_)));
        assert!(admitted.count() < 24, "nobody takes from those who hold as little");
        assert!(of(&shares, VICTIM) <= MAX_FILES / (strangers as usize + 1) + 1);
    }
}
