//! The fleet's dashboard in real headless Chromium; `tests/e2e/browser` has the scripts that drive it.

// Helpers of tests are as good as tests.
#![allow(clippy::unwrap_used)]

use crate::server::{A, ALL, B, Server, ask, gauges, now_ns, tokens};
use gpuwhy_testkit::unavailable;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../../tests/e2e/browser/found.rs"]
mod found;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/browser/main.py");

/// Python with Playwright and axe, and the system's Chromium; None, and a skip, where one cannot be had.
fn browser(test: &str) -> Option<(PathBuf, PathBuf)> {
    match found::browser() {
        Ok(found) => Some(found.clone()),
        Err(reason) => {
            unavailable(test, reason);
            None
        }
    }
}

/// Runs a scenario of the scripts, with what it has to know.
fn driven((python, chromium): &(PathBuf, PathBuf), scenario: &str, server: &Server, known: &[(&str, &str)]) {
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").envs(known.iter().copied());
    let output = command.arg(SCRIPT).arg(chromium).args([scenario, &server.api]).output().unwrap();
    let (message, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}{wrong}");
}

/// Three jobs: one has a straggler, one stops, one is well.
fn load(server: &Server, folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuwhy-fleet"));
    command.args(["load", "--otlp-grpc", &server.grpc, "--api", &server.api, "--token"]).arg(tokens(folder));
    let plan = "--agents 24 --duration 180s --stragglers 34 --hangs 33 --clock-offset 2s --json --seed";
    command.args(plan.split(' ')).arg(SEED).stdout(Stdio::piped()).spawn().unwrap()
}

/// Draws exactly that.
const SEED: &str = "11";

fn log(server: &Server, token: &str, cluster: &str, node: &str, record: &Value) {
    let text = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
    let resource = [text("cluster_id", cluster), text("node_id", node)];
    let request = json!({"resourceLogs": [{
        "resource": {"attributes": resource}, "scopeLogs": [{"logRecords": [record]}],
    }]});
    let body = request.to_string();
    let reply = ask(&server.http, "POST", "/v1/logs", Some(token), "application/json", body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// What a rank's agent found, as it tells it.
fn finding(class: &str, title: &str, line: &str, job: &str, rank: u64) -> Value {
    let text = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
    let body = json!({
        "title": title, "where": {"python": [line, "train.py:88 main"], "native": [], "kernel": null},
        "fixes": ["pin the loader to other CPUs"],
    });
    json!({
        "timeUnixNano": now_ns().to_string(), "eventName": "gpuwhy.finding",
        "body": {"stringValue": body.to_string()},
        "attributes": [
            text("event.name", "gpuwhy.finding"), text("class", class), text("severity", "high"), text("title", title),
            text("job_id", job), {"key": "rank", "value": {"intValue": rank.to_string()}},
        ],
    })
}

/// Asks until both the straggler and the hang are named.
fn named(server: &Server) -> (Value, Value) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let verdicts = server.tool(ALL, "find_outlier_nodes", json!({})).json()["verdicts"].clone();
        let hangs = server.tool(ALL, "hang_autopsy", json!({})).json()["hangs"].clone();
        let slow = verdicts.as_array().unwrap().iter().find(|one| one["kind"] == "straggler");
        if let (Some(slow), Some(hang)) = (slow, hang_of(&hangs)) {
            return (slow.clone(), hang.clone());
        }
        assert!(Instant::now() < until, "not named: {verdicts} {hangs}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// With the stack that its agent tells some seconds later.
fn hang_of(hangs: &Value) -> Option<&Value> {
    let reported =
        |hang: &&Value| hang["culprits"][0]["stack"].as_array().is_some_and(|stack| !stack.is_empty());
    hangs.as_array().unwrap().iter().find(reported)
}

#[test]
fn every_view_of_the_fleet_shows_what_was_planted_and_everybody_can_use_it() {
    let test = "every_view_of_the_fleet_shows_what_was_planted_and_everybody_can_use_it";
    let Some(browser) = browser(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let rates = folder.path().join("rates");
    std::fs::write(&rates, "* * 4.20\n").unwrap();
    let server = Server::start(folder.path(), &["--rates", rates.to_str().unwrap()]);
    // Speaks once and never again.
    log(
        &server,
        ALL,
        "load",
        "silent-node",
        &json!({"timeUnixNano": now_ns().to_string(), "body": {"stringValue": "hello"}}),
    );
    let load = load(&server, folder.path());
    let (slow, hang) = named(&server);
    let (job, rank) = (slow["job"].as_str().unwrap(), slow["rank"].as_u64().unwrap());
    let found = finding("cpu.preempted", "Its loader takes its CPU", "train.py:142 forward", job, rank);
    log(&server, ALL, "load", slow["node"].as_str().unwrap(), &found);
    let planted = [
        ("GPUWHY_TOKEN", ALL),
        ("GPUWHY_STRAGGLER", &format!("{job} {rank}")),
        ("GPUWHY_HANG", &format!("{} {}", hang["job"].as_str().unwrap(), hang["culprits"][0]["rank"])),
    ];
    driven(&browser, "fleet", &server, &planted);
    // Where it is, as agents tell it of all ranks, goes before the finding of one.
    let mut places = found;
    places["eventName"] = "gpuwhy.places".into();
    places["attributes"][0]["value"]["stringValue"] = "gpuwhy.places".into();
    let text = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
    let fields = [
        text("class", "cpu.preempted"),
        text("line", "loader.py:61 next_batch"),
        json!({"key": "share", "value": {"doubleValue": 0.05}}),
    ];
    places["body"] = json!({"arrayValue": {"values": [{"kvlistValue": {"values": fields}}]}});
    log(&server, ALL, "load", slow["node"].as_str().unwrap(), &places);
    driven(&browser, "fleet-place", &server, &planted);
    // The load knows what it planted: both were named, and nobody else.
    let pid = load.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = load.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for sort in ["stragglers", "hangs"] {
        let score = (&report[sort]["planted"], &report[sort]["found"], &report[sort]["wrong"]);
        assert_eq!(score, (&json!(1), &json!(1), &json!(0)), "{report}");
    }
}

#[test]
fn a_tenant_s_dashboard_is_of_its_own_cluster() {
    let Some(browser) = browser("a_tenant_s_dashboard_is_of_its_own_cluster") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for (token, cluster) in [(A, "a"), (B, "b")] {
        let request = gauges(cluster, "gpuwhy.rank.health", now_ns(), &[(0, 0.5), (1, 0.5), (2, 0.5)]);
        assert_eq!(server.push(token, &request).status, 200);
    }
    driven(&browser, "fleet-tenant", &server, &[("GPUWHY_TOKEN", B)]);
}

#[test]
fn hostile_names_are_shown_as_text() {
    let Some(browser) = browser("hostile_names_are_shown_as_text") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let markup = "<img src=x onerror=window.taken=1><script>window.taken=1</script>";
    let turned = "\u{202e}gnp.exe\u{1b}[2J";
    let long = "A".repeat(150);
    for _ in 0..6 {
        let values: Vec<(u32, f64)> = (0..8).map(|rank| (rank, if rank == 5 { 0.1 } else { 0.9 })).collect();
        let mut request = gauges(markup, "gpuwhy.rank.health", now_ns(), &values);
        let attributes = &mut request["resourceMetrics"][0]["resource"]["attributes"];
        attributes[1]["value"]["stringValue"] = format!("{turned}{markup}").into();
        attributes[2]["value"]["stringValue"] = format!("{markup}{long}").into();
        assert_eq!(server.push(ALL, &request).status, 200);
    }
    let stack = json!({"arrayValue": {"values": [{"stringValue": markup}, {"stringValue": turned}]}});
    let mut hang = finding(markup, &format!("{turned}{markup}"), markup, markup, 5);
    log(&server, ALL, markup, turned, &hang);
    hang["eventName"] = "gpuwhy.hang".into();
    hang["attributes"][0]["value"]["stringValue"] = "gpuwhy.hang".into();
    hang["body"] = json!({"kvlistValue": {"values": [{"key": "op", "value": {"stringValue": markup}}, {"key": "stack", "value": stack}]}});
    log(&server, ALL, markup, turned, &hang);
    driven(&browser, "fleet-hostile", &server, &[("GPUWHY_TOKEN", ALL)]);
}
