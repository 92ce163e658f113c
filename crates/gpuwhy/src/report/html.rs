//! Markup that strings of traced processes cannot become: text is escaped when it is put in, and only constants are markup.

use gpuwhy_model::units::printable;

/// A longer text is cut, and says so.
const MAX_LEN: usize = 2_000;

#[derive(Debug, Clone, Default)]
pub(super) struct Html(String);

impl Html {
    /// Text of anybody, shown as text: without control characters, nor such that turn its direction.
    pub(super) fn text(text: impl AsRef<str>) -> Html {
        Html(escaped(text.as_ref()))
    }

    pub(super) fn all(parts: impl IntoIterator<Item = Html>) -> Html {
        Html(parts.into_iter().map(|part| part.0).collect())
    }

    /// Our own text, with no need to be escaped: style sheets, the document's head.
    pub(super) fn constant(text: &'static str) -> Html {
        Html(text.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// An element. Names are ours; values of attributes are escaped.
pub(super) fn el(
    name: &'static str,
    attributes: &[(&'static str, &str)],
    children: impl IntoIterator<Item = Html>,
) -> Html {
    let mut made = format!("<{name}");
    for (key, value) in attributes {
        made.push_str(&format!(" {key}=\"{}\"", escaped(value)));
    }
    made.push('>');
    for child in children {
        made.push_str(&child.0);
    }
    made.push_str(&format!("</{name}>"));
    Html(made)
}

/// An element with text in it.
pub(super) fn words(name: &'static str, text: impl AsRef<str>) -> Html {
    el(name, &[], [Html::text(text)])
}

fn escaped(text: &str) -> String {
    let mut cut: String = text.chars().take(MAX_LEN).collect();
    let rest = text.chars().count().saturating_sub(MAX_LEN);
    if rest > 0 {
        cut.push_str(&format!("… ({rest} characters more)"));
    }
    let mut out = String::with_capacity(cut.len());
    for char in printable(&cut).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_text_in_elements_and_in_attributes() {
        let hostile = "\"><script>x()</script>\u{202e}\u{1b}[2J&'";
        let made = el("p", &[("title", hostile)], [Html::text(hostile)]).into_string();
        assert!(
            !made.contains("<script") && !made.contains('\u{202e}') && !made.contains('\u{1b}'),
            "{made}"
        );
        assert!(made.contains("&lt;script&gt;") && made.contains("title=\"&quot;&gt;"), "{made}");
        assert!(words("p", "x".repeat(1 << 20)).into_string().len() < 3_000);
    }
}
