//! The Prometheus text format, as much of it as servers use. Pure, and bounded by whoever fetched the page.

use std::collections::BTreeMap;

/// Samples of one page that are kept; servers with hundreds of models have a few thousand.
const MAX_SAMPLES: usize = 100_000;

/// The samples whose names somebody wants.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    samples: BTreeMap<&'a str, Vec<Sample<'a>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) labels: Vec<(&'a str, String)>,
    pub(crate) value: f64,
}

impl Sample<'_> {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }
}

impl<'a> Page<'a> {
    /// Lines that are no samples are passed over: one odd line does not spoil the page.
    pub(crate) fn parse(text: &'a str, wanted: impl Fn(&str) -> bool) -> Page<'a> {
        let mut page = Page::default();
        let samples = text.lines().filter_map(|line| sample(line.trim(), &wanted));
        for (name, sample) in samples.take(MAX_SAMPLES) {
            page.samples.entry(name).or_default().push(sample);
        }
        page
    }

    pub(crate) fn of(&self, name: &str) -> &[Sample<'a>] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Sample<'a>> {
        self.samples.values().flatten()
    }
}

/// `name{label="value",...} 1.5 [timestamp]`
fn sample<'a>(line: &'a str, wanted: &impl Fn(&str) -> bool) -> Option<(&'a str, Sample<'a>)> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let name = &line[..end];
    if !wanted(name) {
        return None;
    }
    let rest = &line[end..];
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    let value = number(rest.split_ascii_whitespace().next()?)?;
    Some((name, Sample { labels, value }))
}

/// Until the closing bracket; what comes behind it.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ', '\t']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let mut characters = rest.trim_start().strip_prefix('"')?.char_indices();
        let inside = rest.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        loop {
            match characters.next()? {
                (at, '"') => {
                    text = &inside[at + 1..];
                    break;
                }
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        }
        labels.push((name.trim(), value));
    }
}

/// Rust reads `inf` and `nan` in all the ways the format writes them.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_names_labels_and_values() {
        let text = "# HELP a:b text\n# TYPE a:b gauge\na:b{x=\"1\",y=\"q\\\"}\\n\"} 2.5e3\nplain 7 1700000000000\n\
                    hist_bucket{le=\"+Inf\",} 3\ninf +Inf\nnan NaN\n";
        let page = Page::parse(text, |_| true);
        let [one] = page.of("a:b") else { panic!() };
        assert_eq!((one.value, one.label("x"), one.label("y")), (2500.0, Some("1"), Some("q\"}\n")));
        assert_eq!(page.of("plain")[0].value, 7.0);
        assert_eq!(page.of("hist_bucket")[0].label("le"), Some("+Inf"));
        assert!(page.of("inf")[0].value.is_infinite() && page.of("nan")[0].value.is_nan());
        assert!(page.of("absent").is_empty());
    }

    #[test]
    fn odd_lines_are_passed_over() {
        for odd in [
            "a{",
            "a{x",
            "a{x=",
            "a{x=\"",
            "a{x=\"1\"",
            "a{x=\"1\"}",
            "a",
            "a b",
            "{} 1x",
            "a{x=\"\\",
            "é{} z",
        ] {
            assert_eq!(Page::parse(odd, |_| true).all().count(), 0, "{odd}");
        }
        let page = Page::parse("junk{\ngood 1\n<html>\n", |name| name == "good");
        assert_eq!(page.all().count(), 1);
    }
}
