//! Words of ours with a capital letter, and strings of traced processes on their way to assistants: data, whatever they say.

pub fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The text without what acts on a terminal, a page or a reader: control characters, those that turn or hide text, and all
/// beyond `most` characters. What was taken out is shown as such.
pub fn harmless(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most * 4));
    let mut chars = text.chars();
    for c in chars.by_ref().take(most) {
        out.push(if c == '\n' || c == '\t' {
            ' '
        } else if acts(c) {
            '\u{fffd}'
        } else {
            c
        });
    }
    let rest = chars.count();
    if rest > 0 {
        out.push_str(&format!("… ({rest} more characters)"));
    }
    out
}

/// Control characters; characters that change the direction of text, join or hide it; tags and variation selectors, which
/// carry text nobody sees; and what is set aside for private use.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_taken_out_and_the_rest_stays() {
        assert_eq!(harmless("train.py:142 größe 日本", 100), "train.py:142 größe 日本");
        assert_eq!(
            harmless("a\u{1b}[31mb\u{202e}c\u{200b}d\u{e0041}e\nf", 100),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}e f"
        );
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(harmless(&"x".repeat(1_000_000), 5), "xxxxx… (999995 more characters)");
    }
}
