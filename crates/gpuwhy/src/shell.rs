//! Words as a shell reads them: suggested commands can be pasted.

use gpuwhy_model::advice;
use gpuwhy_model::units::printable;
pub(crate) use gpuwhy_model::units::quoted;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// A user, and their first group: `--group "$(id -gn)"` lets that one read a trace of root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    uid: u32,
    gid: Option<u32>,
}

/// Who has called sudo; nothing where that was nobody. Asked once, before privileges are given up.
static CALLER: OnceLock<Option<Caller>> = OnceLock::new();

/// To be called while the program is still who it was started as.
pub(crate) fn remember_caller() {
    CALLER.get_or_init(|| {
        let is_root = rustix::process::geteuid().is_root();
        let number = |name| std::env::var(name).ok()?.parse().ok();
        caller(number("SUDO_UID"), number("SUDO_GID"), is_root)
    });
}

/// The user behind sudo, who is not root.
fn caller(uid: Option<u32>, gid: Option<u32>, is_root: bool) -> Option<Caller> {
    uid.filter(|uid| is_root && *uid != 0).map(|uid| Caller { uid, gid })
}

/// `gpuwhy`, with `sudo` before it where the user who has called sudo could not read this file without.
pub(crate) fn gpuwhy_for(file: &Path) -> &'static str {
    gpuwhy_of(CALLER.get().copied().flatten(), file)
}

/// What explains this file, as it can be pasted.
pub(crate) fn explain(file: &Path) -> String {
    format!("{} explain {}", gpuwhy_for(file), quoted(&file.display().to_string()))
}

fn gpuwhy_of(caller: Option<Caller>, file: &Path) -> &'static str {
    let can_read = |caller: Caller| {
        std::fs::metadata(file).is_ok_and(|metadata| {
            let is_of_group = caller.gid == Some(metadata.gid()) && metadata.mode() & 0o040 != 0;
            metadata.uid() == caller.uid || is_of_group || metadata.mode() & 0o004 != 0
        })
    };
    match caller {
        Some(caller) if !can_read(caller) => "sudo gpuwhy",
        _ => "gpuwhy",
    }
}

/// Advice as a terminal shows it: the words, and the command on a line of its own. One of ours has sudo where the trace needs it.
pub(crate) fn advice(text: &str, file: &str) -> (String, Option<String>) {
    let text = printable(text);
    let Some((before, command, after)) = advice::parts(&text) else { return (text, None) };
    let command = match command.strip_prefix("gpuwhy ") {
        Some(rest) => format!("{} {rest}", gpuwhy_for(Path::new(file))),
        None => command.to_string(),
    };
    let before = before.trim_end_matches([' ', ':']);
    let after = after.trim_start_matches([' ', ';', ',']);
    let words = match (before.is_empty(), after.is_empty()) {
        (true, _) => after.to_string(),
        (_, true) => before.to_string(),
        _ => format!("{before}; {after}"),
    };
    (words, Some(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_shell_reads_one_word() {
        for word in ["run.db", "/tmp/a b.db", "it's", "$HOME", "SELECT * FROM \"x\"", "", "-n x", "a`b"] {
            let script = format!("printf %s {}", quoted(word));
            let message = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(String::from_utf8(message.stdout).unwrap(), word, "{}", quoted(word));
        }
        assert_eq!(quoted("run.db"), "run.db");
        assert_eq!(quoted("a b"), "'a b'");
    }

    #[test]
    fn a_command_stands_apart_from_its_words() {
        let (words, command) = advice("see why: `gpuwhy explain 'a b.db' --pid 7`; uneven batches", "a b.db");
        assert_eq!(words, "see why; uneven batches");
        assert_eq!(command.unwrap(), "gpuwhy explain 'a b.db' --pid 7");
        let (words, command) = advice("`ss -ti`", "run.db");
        assert_eq!((words.as_str(), command.as_deref()), ("", Some("ss -ti")));
        assert_eq!(advice("use gpuwhy trace", "run.db"), ("use gpuwhy trace".into(), None));
    }

    #[test]
    fn sudo_is_suggested_to_who_called_it_and_cannot_read_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let caller_of = |uid, gid| Some(Caller { uid, gid: Some(gid) });
        let owner = caller_of(metadata.uid(), metadata.gid() + 1);
        let other = caller_of(metadata.uid() + 1, metadata.gid() + 1);
        let colleague = caller_of(metadata.uid() + 1, metadata.gid());
        let allow = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        allow(0o600);
        assert_eq!(gpuwhy_of(other, file.path()), "sudo gpuwhy");
        assert_eq!(gpuwhy_of(colleague, file.path()), "sudo gpuwhy");
        assert_eq!(gpuwhy_of(owner, file.path()), "gpuwhy");
        assert_eq!(gpuwhy_of(None, file.path()), "gpuwhy");
        // As --group leaves it.
        allow(0o640);
        assert_eq!(gpuwhy_of(colleague, file.path()), "gpuwhy");
        assert_eq!(gpuwhy_of(other, file.path()), "sudo gpuwhy");
        allow(0o644);
        assert_eq!(gpuwhy_of(other, file.path()), "gpuwhy");
        // Who that is says sudo, to root alone.
        assert_eq!(caller(Some(1000), Some(100), true), caller_of(1000, 100));
        for (uid, is_root) in [(Some(1000), false), (Some(0), true), (None, true)] {
            assert_eq!(caller(uid, Some(100), is_root), None, "{uid:?}");
        }
    }
}
