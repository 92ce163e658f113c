//! Words as a shell reads them: suggested commands can be pasted.

use gpuwhy_model::units::printable;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// As it is where the shell takes it so, else in single quotes. Control characters are shown, not obeyed.
pub(crate) fn quoted(word: &str) -> String {
    let word = printable(word);
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Who has called sudo; nothing where that was nobody. Asked once, before privileges are given up.
static CALLER: OnceLock<Option<u32>> = OnceLock::new();

/// To be called while the program is still who it was started as.
pub(crate) fn remember_caller() {
    CALLER.get_or_init(|| {
        let user: Option<u32> = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
        user.filter(|uid| rustix::process::geteuid().is_root() && *uid != 0)
    });
}

/// `gpuwhy`, with `sudo` before it where the user who has called sudo could not read this file without.
pub(crate) fn gpuwhy_for(file: &Path) -> &'static str {
    let is_theirs = |uid: u32| {
        std::fs::metadata(file).is_ok_and(|metadata| metadata.uid() == uid || metadata.mode() & 0o004 != 0)
    };
    match CALLER.get().copied().flatten() {
        Some(uid) if !is_theirs(uid) => "sudo gpuwhy",
        _ => "gpuwhy",
    }
}

/// Advice with a command of ours in it: the words without it, and the command as it can be pasted, with the file's name.
pub(crate) fn advice(text: &str, file: &str) -> (String, Option<String>) {
    const OURS: [&str; 3] = ["gpuwhy query ", "gpuwhy explain ", "gpuwhy compare "];
    let text = printable(text);
    let Some((at, ours)) = OURS.iter().find_map(|ours| Some((text.find(ours)?, ours))) else {
        return (text, None);
    };
    let (before, rest) = text.split_at(at);
    // No statement of ours has a semicolon.
    let (command, after) = rest.split_once("; ").unwrap_or((rest, ""));
    let name = ours.trim_start_matches("gpuwhy ").trim_end();
    let arguments = command.strip_prefix(ours).unwrap_or_default();
    let command = format!("{} {name} {} {arguments}", gpuwhy_for(Path::new(file)), quoted(file));
    let before = before.trim_end_matches([' ', ':']);
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

    #[test]
    fn a_shell_reads_one_word() {
        for word in ["run.db", "/tmp/a b.db", "it's", "$HOME", "SELECT * FROM \"x\"", "", "-n x"] {
            let script = format!("printf %s {}", quoted(word));
            let said = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word, "{}", quoted(word));
        }
        assert_eq!(quoted("run.db"), "run.db");
        let (words, command) = advice("see why: gpuwhy explain --pid 7; uneven batches", "a b.db");
        assert_eq!(words, "see why; uneven batches");
        assert_eq!(command.unwrap(), "gpuwhy explain 'a b.db' --pid 7");
        let (words, command) = advice("gpuwhy query \"SELECT 1\"", "run.db");
        assert_eq!((words.as_str(), command.unwrap().as_str()), ("", "gpuwhy query run.db \"SELECT 1\""));
        assert_eq!(advice("use gpuwhy trace", "run.db").1, None);
        assert_eq!(quoted("a b"), "'a b'");
    }
}
