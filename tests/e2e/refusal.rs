//! What refusals have in common: one sentence, nothing changed, and a user without any rights to try them as.

use crate::support::{Trace, done, gpuwhy, skip};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

const UNPRIVILEGED: u32 = 65534;

/// What a command that failed said: one sentence with these words in it, and no trace of a panic.
pub(crate) fn refused(command: &mut Command, status: i32, words: &[&str]) -> String {
    sentence(&command.output().unwrap(), status, words, &format!("{command:?}"))
}

pub(crate) fn sentence(output: &Output, status: i32, words: &[&str], what: &str) -> String {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{what}: {message}");
    assert!(message.starts_with("gpuwhy: ") && message.ends_with('\n'), "{what}: {message}");
    assert_eq!(message.lines().count(), 1, "{what}: {message}");
    assert!(!message.trim_end().contains(char::is_control), "{what}: {message:?}");
    for word in ["panicked", "backtrace", "thread '"] {
        assert!(!message.contains(word), "{what}: {message}");
    }
    for word in words {
        assert!(message.contains(word), "{what}: '{word}' is not in: {message}");
    }
    message
}

/// A small trace that needs no eBPF to be made, as bytes.
pub(crate) fn recorded() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let trace = Trace::new();
        done(gpuwhy().args(["demo", "--replay", "--out"]).arg(trace.file()).output().unwrap());
        fs::read(trace.file()).unwrap()
    })
}

/// The same in a folder of its own.
pub(crate) fn recorded_trace() -> Trace {
    let trace = Trace::new();
    fs::write(trace.file(), recorded()).unwrap();
    trace
}

/// The recorded trace after these statements.
pub(crate) fn changed_by(sql: &str) -> Trace {
    let trace = recorded_trace();
    Connection::open(trace.file()).unwrap().execute_batch(sql).unwrap();
    trace
}

/// The files of a folder, their bytes and times: what must not change.
#[derive(Debug, PartialEq)]
pub(crate) struct Frozen(BTreeMap<PathBuf, (Vec<u8>, SystemTime)>);

impl Frozen {
    pub(crate) fn of(folder: &Path) -> Frozen {
        let files =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        Frozen(
            files
                // The index of the log is no part of the trace, and readers share it.
                .filter(|path| path.extension().is_none_or(|ending| ending != "db-shm"))
                .map(|path| {
                    (
                        path.clone(),
                        (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()),
                    )
                })
                .collect(),
        )
    }

    pub(crate) fn assert_same(&self, folder: &Path, what: &str) {
        let now = Frozen::of(folder);
        let names = |files: &Frozen| files.0.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&now), names(self), "{what}: files came or went");
        for (path, before) in &self.0 {
            assert!(now.0[path] == *before, "{what} changed {}", path.display());
        }
    }
}

/// The binary for a user without any rights, in a folder that this user can enter.
pub(crate) struct Unprivileged {
    pub(crate) folder: tempfile::TempDir,
}

impl Unprivileged {
    /// None, and a skip, where we cannot become somebody else.
    pub(crate) fn new(test: &str) -> Option<Unprivileged> {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path(), 0o777);
        let unprivileged = Unprivileged { folder };
        // Another process copies: a child forked meanwhile in this one would hold the program open for writing.
        let copied = Command::new("install")
            .args(["-m", "755", env!("CARGO_BIN_EXE_gpuwhy")])
            .arg(unprivileged.program())
            .status();
        assert!(copied.unwrap().success());
        match unprivileged.gpuwhy().arg("version").output() {
            Ok(output) => {
                done(output);
                Some(unprivileged)
            }
            Err(error) => {
                skip(test, &format!("only root can start a process of another user ({error})"));
                None
            }
        }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("gpuwhy")
    }

    /// Without a home, and with a folder for temporary files of its own.
    pub(crate) fn gpuwhy(&self) -> Command {
        let mut command = Command::new(self.program());
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        self.like_a_strangers(&mut command);
        command
    }

    fn like_a_strangers(&self, command: &mut Command) {
        command.current_dir("/").env("NO_COLOR", "1").env("TMPDIR", self.folder.path());
        for name in ["HOME", "XDG_DATA_HOME", "GPUWHY_DB"] {
            command.env_remove(name);
        }
    }
}

impl Unprivileged {
    /// The same beside a /var/lib of the test's own, in which root has traced just now, or never. None, and a skip, where nothing
    /// can be mounted.
    pub(crate) fn beside_root(&self, test: &str, has_traced: bool) -> Option<Command> {
        const MOUNT: &str = "mount -t tmpfs none /var/lib || exit 99";
        const TRACE: &str = "mkdir -m 700 /var/lib/gpuwhy && touch /var/lib/gpuwhy/trace.db";
        let can_mount = Command::new("unshare").args(["-m", "sh", "-c", MOUNT]).status();
        if !can_mount.is_ok_and(|status| status.success()) {
            skip(test, "no folder of the test's own can be mounted on /var/lib");
            return None;
        }
        let trace = if has_traced { TRACE } else { "true" };
        let script = format!(
            "{MOUNT}; {trace}; cd /; exec setpriv --reuid={UNPRIVILEGED} --regid={UNPRIVILEGED} --clear-groups -- \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh"]).arg(self.program());
        self.like_a_strangers(&mut command);
        Some(command)
    }
}

pub(crate) fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
