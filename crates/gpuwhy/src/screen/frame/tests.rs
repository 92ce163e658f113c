//! Whole pictures of the live screen, as terminals of three sizes show them. `docs/live.md` has their texts.

use super::*;
use crate::commands::demo;
use crate::explanation::first_screen::verdict;
use gpuwhy_agent::OwnCost;
use gpuwhy_cause::Tallies;
use gpuwhy_model::{Coverage, LossCount};
use gpuwhy_query::{ExplainRequest, Explained, explain};
use gpuwhy_store::Reader;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::path::Path;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/live.md");

/// A job with a late rank, one rank of which has ended, on a host that is too slow for all records.
struct Job {
    snapshot: Snapshot,
    ops: Vec<OpInfo>,
    explained: Explained,
}

fn job() -> Job {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late-rank.db");
    let mut played = demo::replayed("late-rank", &file);
    let explained = explain(&Reader::open(&file).unwrap(), &ExplainRequest::default()).unwrap();
    played.processes.sort_by_key(|process| process.pid);
    for process in &mut played.processes {
        process.end_ns = None;
    }
    let late = explained.findings[0].pid;
    let ended = played.processes.iter_mut().find(|process| Some(process.pid) == late).unwrap();
    ended.end_ns = Some(played.end_ns - 1_000_000_000);
    let lost_by = vec![
        LossCount { probe: "calls".into(), reason: "ring full".into(), count: 1_200 },
        LossCount { probe: "sched".into(), reason: "ring full".into(), count: 34 },
    ];
    let snapshot = Snapshot {
        now_ns: played.end_ns,
        start_ns: played.start_ns,
        tallies: played.tallies,
        processes_seen: played.processes.len(),
        processes: played.processes,
        coverage: Coverage { lost: 1_234, lost_by, unattached: vec!["x".into()], ..Coverage::default() },
        load: Load {
            cpu: 0.62,
            cpus: 32,
            runnable: 21,
            memory_available: 200 << 30,
            memory_total: 512 << 30,
        },
        own: OwnCost { rss_bytes: 45 << 20, cpu: 0.012, ..OwnCost::default() },
        records: 1_000,
        libraries: 3,
        probes: Vec::new(),
        overview: played.overview,
    };
    Job { snapshot, ops: played.ops, explained }
}

const RECORDED: Rest<'_> = Rest::Recorded { explain: "sudo gpuwhy explain /var/lib/gpuwhy/trace.db" };

fn shown(job: &Job, size: (u16, u16), page: usize, help: bool) -> Vec<String> {
    shown_with(job, size, page, help, RECORDED)
}

fn shown_with(
    job: &Job,
    (width, height): (u16, u16),
    page: usize,
    help: bool,
    rest: Rest<'_>,
) -> Vec<String> {
    let verdict = verdict(&job.explained);
    let picture = Picture {
        snapshot: Some(&job.snapshot),
        ops: &job.ops,
        flavour: "session",
        colour: true,
        page,
        no_gpus: None,
        findings: &job.explained.findings,
        steps: &job.explained.steps,
        verdict: Some(&verdict),
        help,
        command: if rest == Rest::Nowhere { "top" } else { "trace" },
        rest,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| picture.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row: u16| -> String {
        (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>().trim_end().into()
    };
    (0..height).map(line).collect()
}

#[test]
fn the_verdict_comes_first_and_nothing_is_cut() {
    let job = job();
    for size in SIZES {
        for page in 0..PAGES.len() {
            let lines = shown(&job, size, page, false);
            let text = lines.join("\n");
            // Header and footer are whole.
            assert!(
                lines[0].starts_with("gpuwhy trace ") && lines[0].ends_with(" calls"),
                "{size:?}\n{text}"
            );
            assert!(lines[0].contains("(1 ended)"), "{text}");
            assert!(lines[1].starts_with("host: CPU 62%") && lines[1].ends_with("memory free"), "{text}");
            let foot = &lines[lines.len() - 2..];
            assert!(foot[0].contains("1,234 LOST, 1 probe off"), "{text}");
            assert!(foot[0].ends_with("gpuwhy itself: 1.2% CPU, 45.0 MiB"), "{text}");
            assert!(foot[1].ends_with("?: help  q: end"), "{text}");
            // What was lost is said with the place and the reason, on every page.
            assert!(
                text.contains("LOST 1,234 records: 1,200 calls (ring full), 34 sched (ring full)"),
                "{text}"
            );
        }
        let lines = shown(&job, size, 0, false);
        let text = lines.join("\n");
        let at = |word: &str| lines.iter().position(|line| line.contains(word));
        assert!(at("=> rank 2 ").is_some_and(|at| at <= 4), "{size:?}\n{text}");
        assert!(at("=> ") < at("high ") && at("high ") < at("TROUBLE"), "{text}");
        assert!(at("operation ").is_some_and(|operations| at("TROUBLE") < Some(operations)), "{text}");
        assert!(text.contains("(ended)"), "{text}");
    }
}

#[test]
fn what_finds_no_room_is_named_with_its_file_and_not_where_nothing_is_recorded() {
    let job = job();
    let text = shown(&job, SIZES[0], 0, false).join("\n");
    assert!(text.contains(" more: sudo gpuwhy explain /var/lib/gpuwhy/trace.db\n"), "{text}");
    assert!(text.contains(" more in table op_summary\n"), "{text}");
    let text = shown_with(&job, SIZES[0], 0, false, Rest::Nowhere).join("\n");
    assert!(text.starts_with("gpuwhy top ") && text.contains(" more\n"), "{text}");
    assert!(!text.contains("gpuwhy explain") && !text.contains("in table"), "{text}");
}

#[test]
fn a_large_host_has_a_whole_header_and_footer() {
    let mut job = job();
    let like = job.snapshot.processes[0].clone();
    for pid in 0..2_000 {
        let end_ns = (pid % 2 == 0).then_some(job.snapshot.now_ns);
        job.snapshot.processes.push(gpuwhy_model::Process { pid: 1_000_000 + pid, end_ns, ..like.clone() });
    }
    job.snapshot.now_ns += 100_000_000_000_000;
    job.snapshot.coverage.lost = 123_456_789;
    let lines = shown(&job, (80, 24), 0, false);
    assert!(lines[0].ends_with(" calls"), "{}", lines[0]);
    let foot = &lines[lines.len() - 2..];
    assert!(foot[0].contains("123,456,789 LOST, 1 probe off"), "{foot:?}");
    assert!(foot[0].ends_with("probe off") || foot[0].ends_with("MiB"), "{foot:?}");
}

#[test]
fn what_follows_from_how_a_program_is_built_is_neutral_and_says_so() {
    let mut job = job();
    job.explained.findings[0].severity = gpuwhy_model::Severity::Low;
    job.explained.findings[0].by_design = Some("launch bound".into());
    let text = shown(&job, (120, 40), 0, false).join("\n");
    assert!(text.contains("as built rank 2"), "{text}");
}

#[test]
fn an_empty_screen_waits() {
    let mut job = job();
    job.snapshot.tallies = Tallies::default();
    job.explained.findings.clear();
    let text = shown(&job, (80, 24), 0, false).join("\n");
    assert!(text.contains("waiting for GPU calls"), "{text}");
}

/// With GPUWHY_WRITE_DOCS=1 the page gets what the screen shows; to be read before it is committed.
#[test]
fn live_screens_are_as_documented() {
    let job = job();
    let mut page = String::from(
        "# The live screen\n\nWhat `gpuwhy trace` and `gpuwhy top` show on a terminal: a job of four ranks on the simulated libraries, \
         one of which comes late and has ended, on a host that was too slow for all records. What bounds the program (`=>`) and the worst \
         findings come first, then what must not be overlooked (`TROUBLE`), then what a step is made of, the GPUs and the operations. \
         `?` explains the rest. What finds no room is counted, with the command or the table that has it; `gpuwhy top` records nothing, and \
         counts alone. A test compares this page with the screen (`GPUWHY_WRITE_DOCS=1 cargo test -p gpuwhy \
         --bin gpuwhy live_screens` writes it anew).\n",
    );
    for (width, height) in SIZES {
        let text = shown(&job, (width, height), 0, false).join("\n");
        page += &format!("\n## {width} columns, {height} lines\n\n```\n{}\n```\n", text.trim_end());
    }
    let help = shown(&job, SIZES[0], 0, true).join("\n");
    page += &format!("\n## Its help\n\n```\n{}\n```\n", help.trim_end());
    if std::env::var_os("GPUWHY_WRITE_DOCS").is_some() {
        std::fs::write(Path::new(PAGE), &page).unwrap();
    }
    let documented = std::fs::read_to_string(PAGE).unwrap();
    for (line, (message, documented)) in page.lines().zip(documented.lines()).enumerate() {
        assert_eq!(message, documented, "docs/live.md:{}", line + 1);
    }
    assert_eq!(page.lines().count(), documented.lines().count());
}

#[test]
fn the_header_fits_into_80_columns_on_a_large_host() {
    let load = Load { cpu: 1.0, cpus: 256, runnable: 1024, memory_available: 1 << 40, memory_total: 2 << 40 };
    let line = host(&load);
    assert!(line.chars().count() <= 80, "{} {line}", line.chars().count());
    for line in help("trace", Some("libnvidia-ml.so.1 cannot be loaded: it is not on this host"), 80) {
        assert!(line.width() <= 80, "{} {line}", line.width());
    }
    assert!(LEGEND.chars().count() <= 78);
}
