//! Words as a shell reads them: suggested commands can be pasted.

use gpuwhy_model::advice;
use gpuwhy_model::units::printable;
pub(crate) use gpuwhy_model::units::quoted;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// Who has called sudo; nothing where that was nobody. Asked once, before privileges are given up.
static CALLER: OnceLock<Option<u32>> = OnceLock::new();

/// To be called while the program is still who it was started as.
pub(crate) fn remember_caller() {
    CALLER.get_or_init(|| {
        let is_root = rustix::process::geteuid().is_root();
        caller(std::env::var("SUDO_UID").ok().as_deref(), is_root)
    });
}

/// The user behind sudo, who is not root.
fn caller(sudo_uid: Option<&str>, is_root: bool) -> Option<u32> {
    sudo_uid.and_then(|uid| uid.parse().ok()).filter(|uid| is_root && *uid != 0)
}

/// `gpuwhy`, with `sudo` before it where the user who has called sudo could not read this file without.
pub(crate) fn gpuwhy_for(file: &Path) -> &'static str {
    gpuwhy_of(CALLER.get().copied().flatten(), file)
}

/// What explains this file, as it can be pasted.
pub(crate) fn explain(file: &Path) -> String {
    format!("{} explain {}", gpuwhy_for(file), quoted(&file.display().to_string()))
}

fn gpuwhy_of(caller: Option<u32>, file: &Path) -> &'static str {
    let is_theirs = |uid: u32| {
        std::fs::metadata(file).is_ok_and(|metadata| metadata.uid() == uid || metadata.mode() & 0o004 != 0)
    };
    match caller {
        Some(uid) if !is_theirs(uid) => "sudo gpuwhy",
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
        let owner = file.as_file().metadata().unwrap().uid();
        let other = owner + 1;
        let allow = |mode| std::fs::set_permissions(file.path(), PermissionsExt::from_mode(mode)).unwrap();
        allow(0o600);
        assert_eq!(gpuwhy_of(Some(other), file.path()), "sudo gpuwhy");
        assert_eq!(gpuwhy_of(Some(owner), file.path()), "gpuwhy");
        assert_eq!(gpuwhy_of(None, file.path()), "gpuwhy");
        allow(0o644);
        assert_eq!(gpuwhy_of(Some(other), file.path()), "gpuwhy");
        // Who that is says sudo, to root alone.
        assert_eq!(caller(Some("1000"), true), Some(1000));
        for (uid, is_root) in [(Some("1000"), false), (Some("0"), true), (Some("x"), true), (None, true)] {
            assert_eq!(caller(uid, is_root), None, "{uid:?}");
        }
    }
}
