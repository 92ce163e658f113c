//! `gpuwhy-fleet load` against a server of its own.

// Helpers of tests are as good as tests.
#![allow(clippy::unwrap_used)]

use crate::clients::certificate;
use crate::server::{Server, command, tokens};
use gpuwhy_testkit::skip;
use serde_json::Value;
use std::process::{Command, Output};

fn load(grpc: &str, api: &str, token: &std::path::Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuwhy-fleet"));
    command.args(["load", "--otlp-grpc", grpc, "--api", api, "--token"]).arg(token);
    command.args(more).output().unwrap()
}

#[test]
fn stragglers_and_hangs_that_are_planted_are_found_over_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let options = [
        "--agents",
        "64",
        "--duration",
        "36s",
        "--stragglers",
        "60",
        "--hangs",
        "20",
        "--seed",
        "3",
        "--json",
    ];
    let output = load(&server.grpc, &server.api, &tokens(folder.path()), &options);
    let message = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&message).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success(), "{message}");
    for sort in ["stragglers", "hangs"] {
        assert!(report[sort]["planted"].as_u64().unwrap() > 0, "{message}");
        assert_eq!(report[sort]["planted"], report[sort]["found"], "{message}");
        assert_eq!(report[sort]["wrong"], 0, "{message}");
    }
    assert!(report["clock_worst_error_ns"].as_u64().unwrap() < 1_000_000, "{message}");
    assert_eq!(report["requests_failed"], 0, "{message}");
    // What was sent is there.
    let rows = server.sql("SELECT count(*) AS calls FROM collectives WHERE rank = comm_rank");
    assert!(rows[0]["calls"].as_u64().unwrap() > 1000, "{rows:?}");
}

#[test]
fn a_load_drives_a_server_with_tls_and_says_whom_it_does_not_trust() {
    let folder = tempfile::tempdir().unwrap();
    let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let Some((cert, key)) = certificate(folder.path(), &leaf) else {
        return skip("a_load_drives_a_server_with_tls", "openssl makes no certificate");
    };
    let server =
        Server::started(command(folder.path()).arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key));
    assert!(server.grpc.starts_with("https://") && server.api.starts_with("https://"));
    let tokens = tokens(folder.path());
    let well = ["--agents", "8", "--duration", "5s", "--stragglers", "0", "--hangs", "0", "--json", "--ca"];
    let trusting = [&well[..], &[cert.to_str().unwrap()]].concat();
    let output = load(&server.grpc, &server.api, &tokens, &trusting);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success() && report["requests"].as_u64().unwrap() > 20, "{report}");
    assert_eq!(report["requests_failed"], 0, "{report}");
    for (more, status, why) in [
        (
            &["--duration", "3s"][..],
            1,
            "nobody who is trusted has signed it; name it, or who signed it, with --ca FILE",
        ),
        (&["--ca", "/nonexistent"], 2, "--ca names a PEM file"),
    ] {
        let output = load(&server.grpc, &server.api, &tokens, more);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), message.contains(why)), (Some(status), true), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_load_without_a_server_says_so_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        load("http://127.0.0.1:9", "http://127.0.0.1:9", &tokens(folder.path()), &["--duration", "3s"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("is it running, may the token read"), "{message}");
    let output = load("ftp://127.0.0.1:9", "http://127.0.0.1:9", &tokens(folder.path()), &[]);
    assert_eq!(output.status.code(), Some(2));
}
