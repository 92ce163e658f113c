//! How much `explain` says: `--verbose`, `--top`, `--min-severity`, `--color`.

use crate::explain::example;
use crate::support::{done, gpuwhy};
use serde_json::Value;
use std::path::PathBuf;

/// A trace, and what is said of it.
struct Example {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Example {
    fn new(name: &str) -> Example {
        let folder = tempfile::tempdir().unwrap();
        let file = example(name, folder.path());
        Example { _folder: folder, file }
    }

    fn page(&self, words: &[&str]) -> String {
        done(gpuwhy().arg("explain").arg(&self.file).args(words).output().unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.page(&[words, &["--json"]].concat())).unwrap()
    }
}

fn findings(answer: &Value) -> &[Value] {
    answer["findings"].as_array().unwrap()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap())
}

/// Numbers of findings on a page.
fn numbered(page: &str) -> usize {
    let is_title =
        |line: &&str| line.get(2..3) == Some(".") || (line.get(2..3) == Some(" ") && line.starts_with(' '));
    let has_number = |line: &&str| line.get(1..2).is_some_and(|digit| digit.parse::<u8>().is_ok());
    page.lines().filter(has_number).filter(is_title).count()
}

#[test]
fn verbose_leaves_nothing_out() {
    for name in ["tour", "train", "late-rank"] {
        let example = Example::new(name);
        let (answer, page) = (example.json(&[]), example.page(&["--verbose"]));
        let mut seen = 0;
        for finding in findings(&answer) {
            let mut message: Vec<&str> =
                vec![finding["title"].as_str().unwrap(), finding["refuted_by"].as_str().unwrap()];
            for cause in finding["causes"].as_array().unwrap() {
                message.push(cause["class"].as_str().unwrap());
                message.extend(texts(&cause["evidence"]));
            }
            let place = &finding["where"];
            message.extend(texts(&place["python"]));
            message.extend(place["kernel"].as_str());
            // A command stands on a line of its own.
            message.extend(
                texts(&finding["fixes"])
                    .flat_map(|fix| fix.split('`').next())
                    .map(|words| words.trim_end_matches([' ', ':'])),
            );
            for words in message {
                seen += 1;
                assert!(page.contains(words), "{name}: '{words}' is not in\n{page}");
            }
        }
        assert!(seen >= 12, "{name}: {seen}");
        for list in ["degraded", "unattached"] {
            for line in texts(&answer["coverage"][list]) {
                assert!(page.contains(line), "{name}: '{line}' is not in\n{page}");
            }
        }
        assert_eq!(page.matches("refuted by: ").count(), findings(&answer).len(), "{name}\n{page}");
    }
}

/// It shows a tree of `--verbose`, and a time of day stands under each finding.
#[test]
fn the_guide_shows_the_tree_as_verbose_does() {
    let example = Example::new("loader-cpu");
    let page = example.page(&["--verbose"]);
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let tree = guide.split("```\n").find(|block| block.starts_with("step ")).unwrap();
    assert!(tree.lines().count() >= 5 && page.contains(tree), "{tree}\nis not in\n{page}");
    let times =
        page.lines().filter(|line| line.starts_with("      when   ") && line.contains(" UTC, ")).count();
    assert_eq!(times, findings(&example.json(&[])).len(), "{page}");
    assert!(page.lines().nth(1).is_some_and(|line| line.starts_with("=> ")), "{page}");
}

#[test]
fn fewer_findings_are_shown_where_fewer_are_asked_for() {
    let example = Example::new("old-spike");
    let all = example.json(&[]);
    assert!(findings(&all).len() >= 3, "{all}");
    for top in [0, 1, 2] {
        let top_word = top.to_string();
        let words = ["--top", top_word.as_str()];
        assert_eq!(findings(&example.json(&words)), &findings(&all)[..top]);
        let page = example.page(&words);
        assert!(numbered(&page) <= top, "{top}\n{page}");
        assert_eq!(numbered(&example.page(&[&words[..], &["--verbose"]].concat())), top);
    }
    assert_eq!(numbered(&example.page(&["--top", "1"])), 1);
}

#[test]
fn only_what_is_bad_enough_is_shown() {
    let example = Example::new("old-spike");
    let grades = |answer: &Value| -> Vec<String> {
        findings(answer).iter().map(|finding| finding["severity"].as_str().unwrap().to_string()).collect()
    };
    let all = grades(&example.json(&[]));
    assert!(all.contains(&"high".into()) && all.contains(&"low".into()), "{all:?}");
    for (least, kept) in [
        ("low", &["critical", "high", "medium", "low"][..]),
        ("medium", &["critical", "high", "medium"]),
        ("high", &["critical", "high"]),
        ("critical", &["critical"]),
    ] {
        let expected: Vec<String> =
            all.iter().filter(|grade| kept.contains(&grade.as_str())).cloned().collect();
        assert_eq!(grades(&example.json(&["--min-severity", least])), expected, "{least}");
    }
    let page = example.page(&["--min-severity", "high"]);
    assert_eq!(numbered(&page), 1, "{page}");
    assert!(!page.contains("as built"), "{page}");
}

#[test]
fn colours_are_as_they_were_asked_for() {
    let example = Example::new("old-spike");
    let plain = example.page(&["--color", "never"]);
    assert!(!plain.contains('\u{1b}'), "{plain}");
    // Nothing here is a terminal.
    assert_eq!(example.page(&["--color", "auto"]), plain);
    let coloured = example.page(&["--color", "always"]);
    assert!(coloured.contains("\u{1b}[31mhigh"), "{coloured:?}");
    // What follows from how a program is built is neither good nor bad.
    assert!(coloured.contains(" 2 as built python3"), "{coloured:?}");
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, code)) = rest.split_once('\u{1b}') {
        bare += before;
        rest = code.split_once('m').unwrap().1;
    }
    assert_eq!(bare + rest, plain, "the words are the same");
}
