//! The first screen of every recording, and of findings with more to say than there is room for.

use super::*;
use crate::cli::Colour;
use flate2::read::GzDecoder;
use gpuwhy_query::{ExplainRequest, explain};
use gpuwhy_store::Reader;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

const WIDTH: usize = 80;

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["crates/query/tests/recordings", "tests/e2e/recordings"];
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".db.gz"))
        .collect();
    files.sort();
    files
}

fn explained(packed: &Path) -> Explained {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(packed).unwrap()).read_to_end(&mut bytes).unwrap();
    let file = tempfile::Builder::new().suffix(".db").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    explain(&Reader::open(file.path()).unwrap(), &ExplainRequest::default()).unwrap()
}

fn screen(explained: &Explained, width: usize) -> String {
    let mut out = Vec::new();
    let screen = Screen { width, top: 3, quiet: false };
    write(explained, &Whole::of(explained), Style::of(Colour::Never, false), screen, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Numbers of the findings that have a line.
fn numbered(page: &str) -> usize {
    let is_title = |line: &&str| {
        let number = line.get(..2).and_then(|number| number.trim_start().parse::<usize>().ok());
        number.is_some() && line.get(2..3) == Some(" ")
    };
    page.lines().filter(is_title).count()
}

/// The lines of each finding: of its title, and in all.
fn heights(page: &str) -> Vec<(usize, usize)> {
    let mut heights: Vec<(usize, usize)> = Vec::new();
    let mut is_title = false;
    for line in page.lines().skip_while(|line| numbered(line) == 0) {
        match heights.last_mut() {
            _ if numbered(line) == 1 => {
                heights.push((1, 1));
                is_title = true;
            }
            _ if line.is_empty() => break,
            Some((title, all)) => {
                is_title &= !["why", "where", "when", "do"].iter().any(|word| {
                    line.strip_prefix("   ").is_some_and(|rest| rest.starts_with(&format!("{word:<9}")))
                });
                *all += 1;
                *title += usize::from(is_title);
            }
            None => {}
        }
    }
    heights
}

/// Three or four; five where the title alone takes three.
fn assert_brief(what: &str, page: &str) {
    for (title, all) in heights(page) {
        assert!(all <= if title == 3 { 5 } else { 4 }, "{what}: a finding of {all} lines\n{page}");
    }
}

/// Lines as a terminal of 80 columns wraps them.
fn rows(page: &str) -> usize {
    page.lines().map(|line| line.chars().count().div_ceil(WIDTH).max(1)).sum()
}

#[test]
fn every_recording_is_understood_from_24_lines_of_80_columns() {
    let recordings = recordings();
    assert!(recordings.len() >= 60, "{} recordings", recordings.len());
    for path in recordings {
        let name = path.display();
        let explained = explained(&path);
        let page = screen(&explained, WIDTH);
        assert!(page.lines().count() <= LINES, "{name}: {} lines\n{page}", page.lines().count());
        for line in page.lines() {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
        assert!(page.lines().nth(1).is_some_and(|line| line.starts_with("=> ")), "{name}\n{page}");
        let serious = worth(&explained).iter().filter(|finding| finding.severity != Severity::Low).count();
        assert!(numbered(&page) >= serious.min(3), "{name}: {serious} serious findings\n{page}");
        assert_brief(&name.to_string(), &page);
    }
}

pub(crate) fn recording(name: &str) -> Explained {
    let path = recordings().into_iter().find(|path| path.ends_with(format!("{name}.db.gz")));
    explained(&path.unwrap())
}

/// Everything is as long as names of containers, kernels and files can make it.
fn crowded(word: &str) -> Explained {
    let mut explained = recording("loader_cpu");
    let long = format!("{word} ").repeat(40);
    explained.trace.file = format!("/srv/{}/run.db", word.repeat(3));
    for tree in &mut explained.steps {
        tree.process = Some(word.into());
        for part in &mut tree.path {
            part.message = long.clone();
            part.place = vec![long.clone(); 3];
        }
    }
    let mut worst = explained.findings[0].clone();
    worst.severity = Severity::Critical;
    worst.title = long.clone();
    worst.place.python = vec![long.clone(); 4];
    worst.fixes = vec![long.clone()];
    worst.causes[0].by[0].comm = long.clone();
    explained.findings = vec![worst; 5];
    explained.coverage.degraded = vec![long];
    explained
}

#[test]
fn long_names_are_cut_and_24_lines_are_never_passed() {
    for word in ["a_container_with_a_name", &"x".repeat(120), "short"] {
        for width in [60, 80, 120, 160] {
            let page = screen(&crowded(word), width);
            let rows: usize = page.lines().map(|line| line.chars().count().div_ceil(width).max(1)).sum();
            assert!(rows <= LINES, "{width}: {rows} rows\n{page}");
            // What can be pasted is whole; everything else keeps to the width.
            for line in page.lines().filter(|line| !line.contains("gpuwhy explain")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(numbered(&page) >= 1 && page.contains("Coverage:"), "{width}\n{page}");
            assert_brief(word, &page);
        }
    }
}

#[test]
fn three_serious_findings_are_shown_with_what_to_do_about_each() {
    let mut explained = recording("loader_cpu");
    let worst = explained.findings[0].clone();
    explained.findings = vec![worst; 3];
    let page = screen(&explained, WIDTH);
    assert_eq!(numbered(&page), 3, "{page}");
    assert_eq!(page.matches("   do       ").count(), 3, "{page}");
    assert!(
        page.contains("   why      ") && page.contains("├─  39.0ms  67%  computing in __iter__"),
        "{page}"
    );
    assert!(rows(&page) <= LINES, "{page}");
    assert!(!page.contains('…'), "{page}");
}

#[test]
fn what_is_beside_the_point_is_not_on_the_first_screen() {
    let mut explained = recording("loader_cpu");
    let mut hidden = explained.findings[0].clone();
    hidden.severity = Severity::Low;
    hidden.saves_ms_per_step = Some(0.0);
    hidden.title = "another rank sleeps, too".into();
    explained.findings.insert(1, hidden);
    assert!(!screen(&explained, WIDTH).contains("another rank sleeps"));
    explained.findings.rotate_left(1);
    assert!(screen(&explained, WIDTH).contains("another rank sleeps"), "what comes first is shown");
}

#[test]
fn a_loop_without_work_and_one_that_hangs_do_not_wait_here() {
    let arrow = "<- the loop waits here";
    let idle = screen(&recording("idle_server"), WIDTH);
    assert!(idle.contains("The GPU has no work"), "{idle}");
    assert!(!idle.contains(arrow) && !idle.contains(" of work"), "{idle}");
    let mut hung = recording("loader_cpu");
    assert!(screen(&hung, WIDTH).contains(arrow));
    hung.findings[0].causes[0].class = Cause::RankHang;
    let page = screen(&hung, WIDTH);
    assert!(page.contains("\nbefore the hang: ") && !page.contains(arrow), "{page}");
}
