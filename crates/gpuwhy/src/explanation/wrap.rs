//! Text in lines of a given width: wrapped at words, and cut only where even that does not fit.

/// No longer than a line.
pub(crate) fn cut(line: &str, width: usize) -> String {
    match line.chars().count() > width {
        true => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => line.into(),
    }
}

/// Words in at most `max_lines` lines, the last of which says where it was cut.
pub(crate) fn wrap(first: &str, others: &str, text: &str, width: usize, max_lines: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let fits = line.chars().count() + word.chars().count() + usize::from(!is_empty) <= width;
        if !fits && !is_empty {
            lines.push(std::mem::replace(&mut line, others.to_string()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    if lines.len() > max_lines {
        lines.truncate(max_lines);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), width);
        }
    }
    lines.into_iter().map(|line| cut(&line, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_what_does_not_fit_is_cut() {
        assert_eq!(wrap("=> ", "   ", "one two three", 10, 9), ["=> one two", "   three"]);
        assert_eq!(wrap("", "", "one two three", 7, 1), ["one tw…"]);
        assert_eq!(wrap("", "", "a_very_long_word", 6, 3), ["a_ver…"]);
        assert_eq!(wrap("- ", "  ", "", 10, 2), ["- "]);
    }
}
