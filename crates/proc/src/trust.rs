//! Processes that do not answer. A page or a file may be of a file system whose server never does (FUSE): who touches it sleeps
//! in the kernel for good, whatever signal comes, and holds the lock of the process's memory meanwhile. That is found out once
//! of a process; then nothing of it is read any more.

use gpuwhy_confine::within_limit;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No disk and no swap takes that long for one read.
const MAX_READ: Duration = Duration::from_millis(1_500);
/// A user with so many such processes has no others that are read. Root's are judged one by one.
const MAX_OF_USER: usize = 4;
/// With so many in all, only root's processes are read.
const MAX: usize = 64;

static BOOK: Mutex<Book> = Mutex::new(Book { reading: Vec::new(), distrusted: Vec::new(), next: 0 });

/// A process, and not another one that has its number later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// Root's where it is gone.
    pub user: u32,
    /// In the kernel's ticks.
    started: Option<u64>,
}

impl Identity {
    pub fn of(pid: u32) -> Identity {
        let text = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (status, stat) = (text("status"), text("stat"));
        let (status, stat) = (String::from_utf8_lossy(&status), String::from_utf8_lossy(&stat));
        let user = || status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next();
        // The name, which may hold anything, ends with the last parenthesis; the start is field 22.
        let started = || stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok();
        Identity { pid, user: user().and_then(|user| user.parse().ok()).unwrap_or(0), started: started() }
    }
}

/// As long as it lives, something of a process is being read.
#[derive(Debug)]
pub(crate) struct Reading {
    number: u64,
}

impl Reading {
    /// Nothing where the process is not to be read.
    pub(crate) fn of(process: &Identity) -> Option<Reading> {
        let mut book = book();
        book.distrust_overdue(Instant::now());
        book.trusts(process).then(|| Reading { number: book.begin(process, Instant::now()) })
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        book().reading.retain(|(number, ..)| *number != self.number);
    }
}

/// Looks at a process, which may delay that without end: then there is nothing, and it is not looked at again.
pub fn look<T: Send + 'static>(pid: u32, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    is_trusted(pid).then(|| {
        within_limit(look).or_else(|| {
            distrust(pid);
            None
        })
    })?
}

pub fn is_trusted(pid: u32) -> bool {
    let mut book = book();
    book.distrust_overdue(Instant::now());
    book.distrusted.is_empty() || book.trusts(&Identity::of(pid))
}

/// Reading something of it did not return.
pub fn distrust(pid: u32) {
    book().distrust(Identity::of(pid));
}

/// All until now, in the order in which they were found.
pub fn distrusted() -> Vec<Identity> {
    let mut book = book();
    book.distrust_overdue(Instant::now());
    book.distrusted.clone()
}

#[derive(Debug)]
struct Book {
    reading: Vec<(u64, Identity, Instant)>,
    distrusted: Vec<Identity>,
    next: u64,
}

impl Book {
    fn begin(&mut self, process: &Identity, now: Instant) -> u64 {
        self.next += 1;
        self.reading.push((self.next, process.clone(), now));
        self.next
    }

    fn distrust_overdue(&mut self, now: Instant) {
        let is_overdue =
            |(_, _, began): &mut (u64, Identity, Instant)| now.saturating_duration_since(*began) > MAX_READ;
        let overdue: Vec<_> = self.reading.extract_if(.., is_overdue).collect();
        for (_, process, _) in overdue {
            self.distrust(process);
        }
    }

    fn distrust(&mut self, process: Identity) {
        if !self.distrusted.contains(&process) && self.distrusted.len() < 2 * MAX {
            self.distrusted.push(process);
        }
    }

    fn trusts(&self, process: &Identity) -> bool {
        let of_user = self.distrusted.iter().filter(|known| known.user == process.user).count();
        let is_limit = of_user >= MAX_OF_USER || self.distrusted.len() >= MAX;
        !self.distrusted.contains(process) && (process.user == 0 || !is_limit)
    }
}

fn book() -> MutexGuard<'static, Book> {
    BOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: u32 = 1000;

    fn process(pid: u32, user: u32) -> Identity {
        Identity { pid, user, started: Some(u64::from(pid)) }
    }

    fn empty() -> Book {
        Book { reading: Vec::new(), distrusted: Vec::new(), next: 0 }
    }

    #[test]
    fn a_process_whose_read_is_overdue_is_not_read_again() {
        let (mut book, began) = (empty(), Instant::now());
        book.begin(&process(1, STRANGER), began);
        book.begin(&process(2, STRANGER), began + MAX_READ);
        book.distrust_overdue(began + MAX_READ);
        assert!(book.trusts(&process(1, STRANGER)), "it has time");
        book.distrust_overdue(began + MAX_READ + Duration::from_millis(1));
        assert!(!book.trusts(&process(1, STRANGER)) && book.trusts(&process(2, STRANGER)));
        let later = Identity { started: Some(7), ..process(1, STRANGER) };
        assert!(book.trusts(&later), "another one has its number");
    }

    #[test]
    fn a_user_with_several_of_them_has_none_that_is_read_and_others_have() {
        let mut book = empty();
        (1..=MAX_OF_USER as u32).for_each(|pid| book.distrust(process(pid, STRANGER)));
        (11..=19).for_each(|pid| book.distrust(process(pid, 0)));
        assert!(!book.trusts(&process(100, STRANGER)));
        assert!(book.trusts(&process(100, STRANGER + 1)) && book.trusts(&process(100, 0)));
        assert!(!book.trusts(&process(11, 0)));
        (1000..1100).for_each(|user| book.distrust(process(user, user)));
        assert!(!book.trusts(&process(5000, 5000)) && book.trusts(&process(5000, 0)), "there is a limit");
    }

    #[test]
    fn one_that_is_looked_at_without_end_is_not_looked_at_again() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (keep, never) = std::sync::mpsc::channel::<()>();
        assert_eq!(look(other.id(), || 7), Some(7));
        assert_eq!(look(other.id(), move || never.recv().is_ok()), None);
        assert_eq!(look(other.id(), || 7), None);
        assert!(!is_trusted(other.id()) && is_trusted(std::process::id()));
        assert_eq!(distrusted().iter().filter(|process| process.pid == other.id()).count(), 1);
        drop(keep);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
