//! What to do about a cause, in words with at most one command that can be pasted: it stands between backticks.

use crate::units::quoted;

/// Commands of ours that are asked of a trace.
const OF_TRACE: [&str; 3] = ["gpuwhy query ", "gpuwhy explain ", "gpuwhy compare "];

/// The words before a command, the command, and the words behind it.
pub fn parts(advice: &str) -> Option<(&str, &str, &str)> {
    let (first, last) = (advice.find('`')?, advice.rfind('`')?);
    (first < last).then(|| (&advice[..first], &advice[first + 1..last], &advice[last + 1..]))
}

/// The same with the trace in a command of ours, as a shell reads its file's name.
pub fn with_trace(advice: &str, file: &str) -> String {
    let Some((before, command, after)) = parts(advice) else { return advice.into() };
    let ours = OF_TRACE.iter().find_map(|ours| Some((ours, command.strip_prefix(ours)?)));
    match ours {
        Some((ours, arguments)) => format!("{before}`{ours}{} {arguments}`{after}", quoted(file)),
        None => advice.into(),
    }
}

/// A name of a traced process within advice: it cannot look like a command.
pub fn plain(name: &str) -> String {
    name.replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_ours_gets_the_trace_and_others_stay() {
        let of = |advice: &str| with_trace(advice, "my run.db");
        assert_eq!(
            of("see why: `gpuwhy explain --pid 7`; uneven batches"),
            "see why: `gpuwhy explain 'my run.db' --pid 7`; uneven batches"
        );
        for same in ["see it: `ss -ti`", "use gpuwhy explain ", "one ` alone", ""] {
            assert_eq!(of(same), same);
        }
        assert_eq!(parts("see `a` now"), Some(("see ", "a", " now")));
        // A file may have any name.
        assert_eq!(parts(&with_trace("`gpuwhy query x`", "a`b.db")).unwrap().1, "gpuwhy query 'a`b.db' x");
        assert_eq!(parts(&plain("`rm -rf ~`")), None);
    }
}
