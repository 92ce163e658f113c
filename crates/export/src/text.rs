//! Strings of traced processes in files that other programs show: bounded, and without power over a screen.

use gpuwhy_model::units::printable;
use std::borrow::Cow;

/// The longest name of a function, process, track or slice, in bytes.
pub(crate) const NAME: usize = 512;
/// The longest value beside one.
pub(crate) const VALUE: usize = 4096;

/// Control characters and such that turn the direction of text are shown as such; what is too long ends in `...`.
pub(crate) fn clean(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    if text.len() <= most && text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return text;
    }
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut clean = printable(&text[..end]);
    if end < text.len() {
        clean.push_str("...");
    }
    Cow::Owned(clean)
}

pub(crate) fn name(text: &str) -> Cow<'_, str> {
    clean(Cow::Borrowed(text), NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hostile_is_shown_and_cut_at_a_character() {
        assert_eq!(name("train.py"), "train.py");
        assert!(matches!(name("train.py"), Cow::Borrowed(_)));
        assert_eq!(name("a\u{1b}[2J\u{202e}b\n"), "a\u{fffd}[2J\u{fffd}b\u{fffd}");
        let long = "ä".repeat(1 << 20);
        let cut = name(&long);
        assert!(cut.len() <= NAME + 3 && cut.ends_with("ä..."), "{}", cut.len());
        assert_eq!(name("größer"), "größer");
    }
}
