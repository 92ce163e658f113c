//! `gpuwhy report`: one page that says what `explain` says, and is safe to open.

use crate::browser::{browser, driven};
use crate::refusal::{Frozen, recorded_trace, refused};
use crate::support::{Trace, done, gpuwhy};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn report(file: &Path, out: &Path, flags: &[&str]) -> Command {
    let mut command = gpuwhy();
    command.arg("report").arg(file).arg("-o").arg(out).args(flags);
    command
}

fn demo(name: &str) -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", name, "--replay", "--out"]).arg(trace.file()).output().unwrap());
    trace
}

/// Text as the page has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[test]
fn the_report_says_what_explain_says_in_one_file() {
    for name in ["h200-loader", "late-rank"] {
        let trace = demo(name);
        let page = done(report(&trace.file(), Path::new("-"), &[]).output().unwrap());
        let explained = done(gpuwhy().args(["explain", "--json"]).arg(trace.file()).output().unwrap());
        let explained: Value = serde_json::from_str(&explained).unwrap();
        let verdict = done(gpuwhy().args(["explain", "--quiet"]).arg(trace.file()).output().unwrap());
        assert!(page.contains(&format!("<h1>{}</h1>", escaped(verdict.trim()))), "{name}: {verdict}");
        let first = &explained["findings"][0];
        for text in [&first["title"], &first["refuted_by"], &first["sql"]] {
            assert!(page.contains(&escaped(text.as_str().unwrap())), "{name}: {text}");
        }
        // Commands are code, and name the trace.
        for fix in first["fixes"].as_array().unwrap() {
            let fix = escaped(fix.as_str().unwrap());
            let shown = fix.replacen('`', "<code>", 1).replacen('`', "</code>", 1);
            assert!(page.contains(&format!("<li>{shown}</li>")), "{name}: {fix}");
        }
        for cause in first["causes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|cause| cause["share_pct"].as_f64() >= Some(1.0))
        {
            assert!(page.contains(cause["class"].as_str().unwrap()), "{name}: {cause}");
        }
        for heading in ["Where does a step go?", "GPU utilisation", "Findings", "Coverage", "Environment"] {
            assert!(page.contains(&format!("<h2>{heading}</h2>")), "{name}: {heading}");
        }
        // Nothing is loaded, and nothing is run.
        for word in ["<script", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(word), "{name}: {word}");
        }
        assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"), "{name}");
    }
    let page = done(report(&demo("h200-loader").file(), Path::new("-"), &[]).output().unwrap());
    assert!(page.contains("<svg") && page.contains("class=\"curve\""), "no curve of the GPU");
}

/// It takes most of the time, and is no fault.
#[test]
fn what_follows_from_how_a_program_is_built_is_neutral() {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::explain::example("train", folder.path());
    let named = folder.path().join("it's mine.db");
    std::fs::rename(file, &named).unwrap();
    let page = done(report(&named, Path::new("-"), &[]).output().unwrap());
    let badge =
        "<article class=\"finding built\"><h3><span class=\"badge built\">as built: launch bound</span>";
    assert!(page.contains(badge), "{page}");
    // What to type next can be pasted.
    let command = escaped(r"gpuwhy explain 'it'\''s mine.db' --verbose");
    assert!(page.contains(&format!("<code>{command}</code>")), "{page}");
}

#[test]
fn nothing_is_overwritten_and_a_trace_without_data_is_no_report() {
    let trace = recorded_trace();
    let before = Frozen::of(trace.folder.path());
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.html");
    let message = done(report(&trace.file(), &out, &[]).output().unwrap());
    assert!(message.contains("run.html"), "{message}");
    refused(&mut report(&trace.file(), &out, &[]), 1, &["is there already", "--force"]);
    std::fs::write(&out, "mine").unwrap();
    done(report(&trace.file(), &out, &["--force"]).output().unwrap());
    assert!(std::fs::read_to_string(&out).unwrap().starts_with("<!doctype html>"));
    refused(&mut report(&trace.file(), &trace.file(), &["--force"]), 2, &["is the trace itself"]);
    refused(
        &mut report(&trace.file(), &folder.path().join("a/b.html"), &[]),
        1,
        &["its folder does not exist"],
    );
    let none = folder.path().join("none.html");
    refused(
        &mut report(&trace.file(), &none, &["--pid", "4000000000"]),
        3,
        &["no calls of process 4000000000"],
    );
    refused(&mut report(&folder.path().join("no.db"), &none, &[]), 1, &["no.db"]);
    assert!(!none.exists());
    before.assert_same(trace.folder.path(), "report");
    let help = done(gpuwhy().args(["report", "--help"]).output().unwrap());
    assert!(help.contains("gpuwhy report run.db -o run.html"), "{help}");
}

/// From disk, at both widths, in both colour schemes, on paper; of a good trace and of one that wants to be a program.
#[test]
fn the_report_opens_from_disk_for_everybody_and_runs_nothing() {
    let Some(browser) = browser("the_report_opens_from_disk_for_everybody_and_runs_nothing") else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str, trace: &Trace| -> PathBuf {
        let out = folder.path().join(name);
        done(report(&trace.file(), &out, &[]).output().unwrap());
        out
    };
    let plain = made("plain.html", &demo("h200-loader"));
    let trace = demo("h200-item");
    let db = rusqlite::Connection::open(trace.file()).unwrap();
    let markup = "</style><script>window.taken=1</script><img src=x onerror=window.taken=1>";
    let turned = "\u{202e}gnp.exe\u{1b}[2J";
    let long = "A".repeat(1 << 20);
    for statement in [
        "UPDATE processes SET comm = ?1, cmdline = ?3, cgroup = ?2",
        "UPDATE threads SET comm = ?1 || ?2",
        "UPDATE frames SET function = iif(depth % 2, ?1, ?2), file = iif(depth % 3, ?2, ?1)",
        "UPDATE call_stats SET op = ?1 WHERE op = 'cudaStreamSynchronize'",
        "UPDATE ops SET op = ?1 WHERE op = 'cudaStreamSynchronize'",
        "UPDATE blame SET by_comm = ?1 || ?2 WHERE by_comm IS NOT NULL",
        "UPDATE probes SET reason = ?1 || ?2 WHERE state <> 'attached'",
        "UPDATE sessions SET host = ?1, gpus = json_array(?2, ?3), kernel = ?1, flags = json_array(?1)",
    ] {
        let words = [markup, turned, &long];
        let mut statement = db.prepare(statement).unwrap();
        let many = statement.parameter_count();
        statement.execute(rusqlite::params_from_iter(&words[..many])).unwrap();
    }
    drop(db);
    let hostile = made("hostile.html", &trace);
    for (scenario, page) in [("report", plain), ("report-hostile", hostile)] {
        driven(&browser, scenario, &format!("file://{}", page.display()));
    }
}
