//! Takes from a thread what it does not need. The agent is root because probes need it; a thread that reads strangers'
//! files, stores or serves gives up its capabilities, most system calls and, where the kernel has Landlock, the file
//! system, for good; and it becomes another user, unless files of root's are what it is for. All of it is the calling
//! thread's alone, and of threads and processes that it starts.

mod aside;
mod calls;
mod deaths;
mod files;
mod helper;
mod patience;
mod user;
mod worker;

pub use aside::within_limit;
pub use deaths::{deaths, live};
pub use helper::{Helper, Limits, Reply, Trouble, die_with_parent};
pub use patience::stuck;
pub use worker::{Asker, Parser, Worker};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::path::PathBuf;

/// What a thread is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Reads what is open already, and computes.
    Parse,
    /// The same, in several threads.
    Compute,
    /// The same as `Parse`, with connections that are open already.
    Talk,
    /// Writes files that are open already.
    Write,
    /// Reads files in a folder that everybody may read.
    Read(PathBuf),
    /// Opens, makes and removes files in a folder, for somebody who may not.
    Open(PathBuf),
    /// Writes files in a folder.
    Store(PathBuf),
    /// Answers a stranger's statement about a file that is open already, with temporary files in these folders.
    Answer(Vec<PathBuf>),
    /// The same, with a database that opens all its files itself, in a folder, in several threads.
    Database(PathBuf),
    /// Serves what others answer, whom it starts; it may read the trace, which may be another user's.
    Front(PathBuf),
    /// Talks to others over sockets.
    Serve,
    /// The same, with files that wait to be sent in a folder.
    Spool(PathBuf),
    /// Opens files of other processes, and sockets that are root's.
    Look,
    /// Asks a device driver which has answers for root alone.
    Drive,
    /// Starts programs that confine themselves.
    Start,
}

impl Purpose {
    fn has_own_user(&self) -> bool {
        match self {
            Purpose::Parse
            | Purpose::Compute
            | Purpose::Talk
            | Purpose::Write
            | Purpose::Read(_)
            | Purpose::Answer(_)
            | Purpose::Serve => true,
            Purpose::Open(_)
            | Purpose::Store(_)
            | Purpose::Database(_)
            | Purpose::Front(_)
            | Purpose::Spool(_)
            | Purpose::Look
            | Purpose::Drive
            | Purpose::Start => false,
        }
    }
}

/// What came of it. What a kernel lacks is not had; the rest holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    pub has_no_capabilities: bool,
    pub has_filter: bool,
    pub has_files: bool,
    pub has_own_user: bool,
}

/// Confines the calling thread.
pub fn confine(purpose: &Purpose) -> Confined {
    // Whatever it starts cannot gain anything either. Filters and Landlock need it.
    let no_new = set_no_new_privs(true).is_ok();
    let has_files = no_new && files::restrict(purpose);
    let kept = kept(purpose);
    let has_own_user = purpose.has_own_user() && user::change();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    let dropped = set_capabilities(None, sets).is_ok();
    let has_filter = no_new && calls::restrict(purpose);
    Confined { has_no_capabilities: dropped && kept.is_empty(), has_filter, has_files, has_own_user }
}

/// Reads strangers' data in a thread of its own that can do nothing else. Nothing where the reader failed: a panic ends
/// that thread alone, and one that does not return is left behind.
pub fn parse<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    Parser::start(PARSER, Purpose::Parse).parse(read)
}

/// Does something in a thread of its own that is for nothing else, and waits for it. Nothing where it panicked.
pub fn apart<T: Send>(name: &'static str, purpose: &Purpose, work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let confined = || {
            confine(purpose);
            work()
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn_scoped(scope, confined);
        thread.ok()?.join().inspect_err(|_| deaths::count(name)).ok()
    })
}

/// The name of threads that parse and end.
const PARSER: &str = "gpuwhy-parse";

const FILES_OF_OTHERS: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER).union(CapabilitySet::CHOWN);

/// Capabilities that cannot be done without.
fn kept(purpose: &Purpose) -> CapabilitySet {
    let needed = match purpose {
        Purpose::Parse
        | Purpose::Compute
        | Purpose::Talk
        | Purpose::Write
        | Purpose::Read(_)
        | Purpose::Answer(_)
        | Purpose::Database(_)
        | Purpose::Serve
        | Purpose::Spool(_) => CapabilitySet::empty(),
        // The folder or the file may be somebody else's, and a group is given to the file.
        Purpose::Open(_) => FILES_OF_OTHERS,
        // Files that it makes and removes are in somebody else's folder.
        Purpose::Store(folder) if !files::is_own(folder) => CapabilitySet::DAC_OVERRIDE,
        Purpose::Store(_) => CapabilitySet::empty(),
        // What it starts becomes another user, and opens the trace before.
        Purpose::Front(folder) => {
            let files =
                if files::is_own(folder) { CapabilitySet::empty() } else { CapabilitySet::DAC_OVERRIDE };
            files | CapabilitySet::SETUID | CapabilitySet::SETGID
        }
        // Roots of other users' processes.
        Purpose::Look => CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH,
        // Some of NVIDIA's counters are for administrators, and this is how the driver tells one.
        Purpose::Drive => CapabilitySet::SYS_ADMIN,
        // What it starts opens files and becomes another user, and is to end with it.
        Purpose::Start => {
            FILES_OF_OTHERS | CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL
        }
    };
    // Nothing can be kept that is not there.
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted & needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A thread's own lines of `/proc/thread-self/status`, read through a file that was opened before.
    fn status(mut file: &File) -> Vec<String> {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let wanted = |line: &&str| {
            ["CapEff", "CapPrm", "Seccomp:", "NoNewPrivs", "Uid", "Groups"]
                .iter()
                .any(|name| line.starts_with(name))
        };
        text.lines().filter(wanted).map(|line| line.replacen('\t', "", 1).replace('\t', " ")).collect()
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
        let may = ["CapPrm:0000000000000000", "CapEff:0000000000000000", "NoNewPrivs:1", "Seccomp:2"];
        assert_eq!(lines[2..], may, "{lines:?}");
        if rustix::process::geteuid().is_root() {
            assert!(confined.has_own_user && lines[1] == "Groups: ", "{lines:?}");
            assert!(lines[0].split(' ').all(|id| id != "0"), "{lines:?}");
        }
        assert!(!opened && !socket, "neither files nor sockets");
        let of =
            |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_string();
        let after = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert_eq!(of(&before, "CapEff"), of(&after, "CapEff"));
        assert_eq!(of(&before, "Seccomp:"), of(&after, "Seccomp:"));
        assert_eq!(of(&before, "Uid:"), of(&after, "Uid:"));
    }

    #[test]
    fn a_reader_that_panics_ends_alone() {
        assert_eq!(parse(|| 7), Some(7));
        assert_eq!(parse(|| vec![1][std::hint::black_box(2)]), None);
        let (keep, never) = std::sync::mpsc::channel::<()>();
        assert_eq!(parse(move || never.recv().is_ok()), None, "one that does not return is not waited for");
        drop(keep);
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
    fn who_writes_has_what_is_open_and_can_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("open");
        let mut open = File::create(&path).unwrap();
        let (confined, written, opened) = in_thread(|| {
            let confined = confine(&Purpose::Write);
            let written = open.write_all(b"written").and_then(|()| open.sync_all());
            (confined, written, File::open(&path).is_ok() || fs::remove_file(&path).is_ok())
        });
        written.unwrap();
        assert!(confined.has_no_capabilities && confined.has_filter && !opened, "{confined:?}");
        assert_eq!(confined.has_own_user, rustix::process::geteuid().is_root());
        assert_eq!(fs::read(&path).unwrap(), b"written");
    }

    #[test]
    fn who_reads_a_folder_has_no_other_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let (inside, other) = (folder.path().join("a"), tempfile::NamedTempFile::new().unwrap());
        fs::write(&inside, "a").unwrap();
        fs::set_permissions(other.path(), fs::Permissions::from_mode(0o666)).unwrap();
        let (confined, read, outside, changed) = in_thread(|| {
            let confined = confine(&Purpose::Read(folder.path().into()));
            let changed = fs::write(folder.path().join("b"), "b").is_ok();
            (confined, fs::read(&inside), fs::read(other.path()).is_ok(), changed)
        });
        assert_eq!(read.unwrap(), b"a");
        assert!(confined.has_no_capabilities && confined.has_filter, "{confined:?}");
        assert_eq!((outside, changed), (!confined.has_files, !confined.has_files), "by Landlock");
    }

    #[test]
    fn who_computes_has_threads_and_no_files() {
        let (sum, opened, ran) = in_thread(|| {
            confine(&Purpose::Compute);
            let ran = std::process::Command::new("true").status().is_ok();
            (in_thread(|| 3) + 4, File::open("/proc/version").is_ok(), ran)
        });
        assert_eq!((sum, opened, ran), (7, false, false));
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

    #[test]
    fn who_spools_has_its_folder_and_names_of_hosts_and_no_other_file_of_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::NamedTempFile::new().unwrap();
        let (confined, spooled, hosts, outside, bound) = in_thread(|| {
            let confined = confine(&Purpose::Spool(folder.path().into()));
            let spooled = fs::write(folder.path().join("half"), "a")
                .and_then(|()| fs::rename(folder.path().join("half"), folder.path().join("whole")));
            let bound = std::net::TcpListener::bind("127.0.0.1:0").is_ok();
            (confined, spooled, fs::read("/etc/hosts").is_ok(), fs::read(other.path()).is_ok(), bound)
        });
        spooled.unwrap();
        assert!(confined.has_no_capabilities && confined.has_filter && bound, "{confined:?}");
        assert!(hosts || !Path::new("/etc/hosts").exists());
        assert_eq!(outside, !confined.has_files, "by Landlock");
    }

    #[test]
    fn who_answers_has_what_is_open_and_a_folder_for_what_is_sorted() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let other = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(other.path(), fs::Permissions::from_mode(0o666)).unwrap();
        let (confined, spilled, outside, threads) = in_thread(|| {
            let confined = confine(&Purpose::Answer(vec![folder.path().into(), "/absent".into()]));
            let spilled = fs::write(folder.path().join("spilled"), "a");
            let threads = std::thread::Builder::new().spawn(|| ()).is_ok();
            (confined, spilled, fs::read(other.path()).is_ok(), threads)
        });
        spilled.unwrap();
        assert!(confined.has_no_capabilities && confined.has_filter && !threads, "{confined:?}");
        assert_eq!(confined.has_own_user, rustix::process::geteuid().is_root());
        assert_eq!(outside, !confined.has_files, "by Landlock");
    }

    #[test]
    fn who_fronts_starts_programs_that_confine_themselves_and_no_other_privilege() {
        let folder = tempfile::tempdir().unwrap();
        let (confined, ran, mounted) = in_thread(|| {
            let confined = confine(&Purpose::Front(folder.path().into()));
            let mounted = rustix::process::chroot("/").is_ok();
            (
                confined,
                std::process::Command::new("true").status().is_ok_and(|status| status.success()),
                mounted,
            )
        });
        assert!(confined.has_filter && ran && !mounted, "{confined:?}");
    }
}
