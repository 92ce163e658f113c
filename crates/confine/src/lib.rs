//! Takes from a thread what it does not need. The agent is root because probes need it; a thread that reads strangers'
//! files, stores or serves gives up its capabilities, most system calls and, where the kernel has Landlock, the file
//! system, for good. All of it is the calling thread's alone, and of threads and processes that it starts.

mod calls;
mod files;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::path::PathBuf;

/// What a thread is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Reads what is open already, and computes.
    Parse,
    /// Writes files in a folder.
    Store(PathBuf),
    /// Talks to others over sockets.
    Serve,
    /// The same about other processes, whose files it opens.
    Look,
}

/// What came of it. What a kernel lacks is not had; the rest holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    pub has_no_capabilities: bool,
    pub has_filter: bool,
    pub has_files: bool,
}

/// Confines the calling thread.
pub fn confine(purpose: &Purpose) -> Confined {
    // Whatever it starts cannot gain anything either. Filters and Landlock need it.
    let no_new = set_no_new_privs(true).is_ok();
    let has_files = no_new && files::restrict(purpose);
    let kept = kept(purpose);
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    let dropped = set_capabilities(None, sets).is_ok();
    let has_filter = no_new && calls::restrict(purpose);
    Confined { has_no_capabilities: dropped && kept.is_empty(), has_filter, has_files }
}

/// Reads strangers' data in a thread of its own that can do nothing else. Nothing where the reader failed: a panic ends
/// that thread alone.
pub fn parse<T: Send>(read: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let confined = || {
            confine(&Purpose::Parse);
            read()
        };
        let thread = std::thread::Builder::new().name(PARSER.into()).spawn_scoped(scope, confined);
        thread.ok()?.join().ok()
    })
}

/// The name of threads that parse and end.
const PARSER: &str = "gpuwhy-parse";

/// Capabilities that cannot be done without.
fn kept(purpose: &Purpose) -> CapabilitySet {
    let needed = match purpose {
        Purpose::Parse | Purpose::Serve => CapabilitySet::empty(),
        // Files that it makes and removes are in somebody else's folder.
        Purpose::Store(folder) if !files::is_own(folder) => CapabilitySet::DAC_OVERRIDE,
        Purpose::Store(_) => CapabilitySet::empty(),
        // Roots of other users' processes.
        Purpose::Look => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
    };
    // Nothing can be kept that is not there.
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted & needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::Read;

    /// A thread's own lines of `/proc/thread-self/status`, read through a file that was opened before.
    fn status(mut file: &File) -> Vec<String> {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let wanted = |line: &&str| {
            ["CapEff", "CapPrm", "Seccomp:", "NoNewPrivs"].iter().any(|name| line.starts_with(name))
        };
        text.lines().filter(wanted).map(|line| line.replace('\t', "")).collect()
    }

    fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    #[test]
    fn a_parser_has_nothing_and_others_have_what_they_had() {
        let before = fs::read_to_string("/proc/thread-self/status").unwrap();
        let (confined, lines, opened, socket) = in_thread(|| {
            let own = File::open("/proc/thread-self/status").unwrap();
            let confined = confine(&Purpose::Parse);
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
            (confined, status(&own), File::open("/proc/version").is_ok(), socket)
        });
        assert!(confined.has_no_capabilities && confined.has_filter, "{confined:?}");
        assert_eq!(
            lines,
            ["CapPrm:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]
        );
        assert!(!opened && !socket, "neither files nor sockets");
        let of =
            |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_string();
        let after = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert_eq!(of(&before, "CapEff"), of(&after, "CapEff"));
        assert_eq!(of(&before, "Seccomp:"), of(&after, "Seccomp:"));
    }

    #[test]
    fn a_reader_that_panics_ends_alone() {
        assert_eq!(parse(|| 7), Some(7));
        assert_eq!(parse(|| vec![1][std::hint::black_box(2)]), None);
        assert_eq!(parse(|| File::open("/proc/version").is_ok()), Some(false));
    }

    #[test]
    fn who_stores_has_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let (confined, inside, outside, ran) = in_thread(|| {
            let confined = confine(&Purpose::Store(folder.path().into()));
            let inside = fs::write(folder.path().join("a"), "a")
                .and_then(|()| fs::rename(folder.path().join("a"), folder.path().join("b")))
                .and_then(|()| fs::remove_file(folder.path().join("b")));
            let outside = fs::write(other.path().join("a"), "a");
            (confined, inside, outside, std::process::Command::new("true").status())
        });
        inside.unwrap();
        assert!(confined.has_no_capabilities && confined.has_filter, "{confined:?}");
        assert!(ran.is_err(), "no programs");
        assert_eq!(outside.is_err(), confined.has_files, "where the kernel has Landlock");
    }

    #[test]
    fn who_serves_has_sockets_and_threads() {
        let (bound, threads, ran) = in_thread(|| {
            confine(&Purpose::Serve);
            let ran = std::process::Command::new("true").status();
            (std::net::TcpListener::bind("127.0.0.1:0").is_ok(), in_thread(|| 7), ran)
        });
        assert!(bound && threads == 7 && ran.is_err());
    }
}
