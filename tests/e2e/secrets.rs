//! What a trace says is for its owner: files that others cannot read, command lines without secrets, tokens that stay with the agent.

use crate::refusal::{Unprivileged, recorded_trace, refused};
use crate::support::{Trace, can_trace, done, gpuwhy, simwork, skip};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const SECRET: &str = "5ecre7-that-nobody-may-read";

/// All files and folders below that others than their owner have rights to.
fn open_ones(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.mode() & 0o077 != 0 {
            open.push(format!("{} {:o}", path.display(), metadata.mode()));
        }
        if metadata.is_dir() {
            open.extend(open_ones(&path));
        }
    }
    open
}

#[test]
fn traces_and_exports_are_their_owners_alone_or_a_groups() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As in a shell that hides nothing by itself.
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", "umask 022; exec \"$@\"", "bash", env!("CARGO_BIN_EXE_gpuwhy")]).args(words);
        done(command.current_dir(folder.path()).output().unwrap());
    };
    run(&["demo", "--replay", "--out", "made/trace.db"]);
    let trace = "made/trace.db";
    run(&["export", trace, "--format", "chrome", "-o", "run.json"]);
    run(&["export", trace, "--format", "parquet", "-o", "run"]);
    run(&["demo", "cpu-hog", "--replay", "--out", "other.db"]);
    run(&["merge", trace, "other.db", "-o", "merged.db"]);
    assert!(at("run/op_summary.parquet").exists() && at("merged.db").exists());
    assert_eq!(open_ones(folder.path()), [""; 0]);
    run(&["export", trace, "--format", "chrome", "-o", "group.json", "--group", "65534"]);
    run(&["export", trace, "--format", "parquet", "-o", "group", "--group", "65534"]);
    if std::fs::metadata(at("group.json")).unwrap().gid() != 65534 {
        return skip(
            "traces_and_exports_are_their_owners_alone_or_a_groups",
            "only root gives files to any group",
        );
    }
    for (name, mode) in [("group.json", 0o640), ("group", 0o750), ("group/op_summary.parquet", 0o640)] {
        let metadata = std::fs::metadata(at(name)).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.gid()), (mode, 65534), "{name}");
    }
    refused(
        gpuwhy().args(["export", trace, "--format", "chrome", "-o", "x", "--group", "no-such-group"]),
        2,
        &["there is no group 'no-such-group'"],
    );
}

#[test]
fn a_trace_cannot_be_read_by_others_while_it_is_written_nor_afterwards() {
    const TEST: &str = "a_trace_cannot_be_read_by_others_while_it_is_written_nor_afterwards";
    let Some(unprivileged) = Unprivileged::new(TEST).filter(|_| can_trace(TEST)) else { return };
    let trace = Trace::new();
    std::fs::set_permissions(trace.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // An earlier gpuwhy made it open to all.
    std::fs::write(trace.file(), crate::refusal::recorded()).unwrap();
    std::fs::set_permissions(trace.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let listing = format!("stat -c '%a' {0} {0}-wal {0}-shm", trace.file().display());
    let mut command = gpuwhy();
    command.args(["trace", "--out"]).arg(trace.file()).args(["--", "bash", "-c", &listing]);
    let message = done(command.output().unwrap());
    assert!(message.starts_with("600\n600\n600\n"), "{message}");
    refused(unprivileged.gpuwhy().arg("explain").arg(trace.file()), 1, &["permission denied"]);
    let mut command = gpuwhy();
    command
        .args(["trace", "--group", "65534", "--out"])
        .arg(trace.file())
        .args(["--", "bash", "-c", &listing]);
    let message = done(command.output().unwrap());
    assert!(message.starts_with("640\n640\n640\n"), "{message}");
    done(unprivileged.gpuwhy().arg("query").arg(trace.file()).arg("SELECT 1").output().unwrap());
}

#[test]
fn secrets_on_command_lines_are_stored_nowhere_and_tokens_are_not_handed_on() {
    const TEST: &str = "secrets_on_command_lines_are_stored_nowhere_and_tokens_are_not_handed_on";
    if !can_trace(TEST) {
        return;
    }
    let record = |words: &[&str]| {
        let trace = Trace::new();
        let work = simwork();
        let script =
            format!("env | grep -c {}; {} launch --launches 50 >&2; true", &SECRET[..12], work.display());
        let (key, url) = (format!("--api-key={SECRET}"), format!("https://me:{SECRET}@host/x"));
        let mut command = gpuwhy();
        command
            .args(["trace", "--out"])
            .arg(trace.file())
            .args(words)
            .arg("--")
            .args(["bash", "-c", &script]);
        command.args(["--token", SECRET, &key, &url, &format!("OPENAI_API_KEY={SECRET}")]);
        for name in ["GPUWHY_TOKEN", "GPUWHY_FLEET_TOKEN", "GPUWHY_FLEET_TOKEN_FILE"] {
            command.env(name, SECRET);
        }
        let output = command.output().unwrap();
        // The script finds none in its environment, so grep counts nothing.
        let message = done(output);
        assert!(message.starts_with("0\n"), "{message}");
        trace
    };
    let trace = record(&[]);
    let bytes = std::fs::read(trace.file()).unwrap();
    let found = |bytes: &[u8]| bytes.windows(SECRET.len()).filter(|part| *part == SECRET.as_bytes()).count();
    assert_eq!(found(&bytes), 0);
    let lines = trace.text("SELECT group_concat(cmdline, '; ') FROM processes");
    let masked = "--token *** --api-key=*** https://me:***@host/x OPENAI_API_KEY=***";
    assert!(lines.contains(masked), "{lines}");
    let flags = trace.text("SELECT flags FROM sessions");
    assert!(
        flags.contains(r#""--token","***","--api-key=***","https://me:***@host/x","OPENAI_API_KEY=***""#),
        "{flags}"
    );
    let trace = record(&["--no-mask"]);
    assert!(found(&std::fs::read(trace.file()).unwrap()) >= 2);
}

#[test]
fn a_fleet_elsewhere_is_told_nothing_in_the_clear_and_token_files_of_all_are_refused() {
    const TEST: &str = "a_fleet_elsewhere_is_told_nothing_in_the_clear_and_token_files_of_all_are_refused";
    let trace = recorded_trace();
    let folder = trace.folder.path();
    let fleet = |url: &str| {
        let mut command = gpuwhy();
        command.args(["trace", "--out"]).arg(folder.join("x.db")).args(["--fleet", url, "--fleet-spool"]);
        command.arg(folder.join("spool")).args(["--", "true"]);
        command
    };
    for url in ["http://fleet.example:4317", "http://10.0.0.1:4318", "http://[2001:db8::1]:4317"] {
        refused(&mut fleet(url), 2, &["in the clear", "use https://"]);
    }
    let tokens = folder.join("tokens");
    std::fs::write(&tokens, SECRET).unwrap();
    for mode in [0o644, 0o602, 0o620] {
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = fleet("http://127.0.0.1:1");
        refused(command.env("GPUWHY_FLEET_TOKEN_FILE", &tokens), 1, &["can be read or written by everybody"]);
    }
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    if std::os::unix::fs::chown(&tokens, Some(65534), None).is_err() {
        return skip(TEST, "only root can give a file away");
    }
    let mut command = fleet("http://127.0.0.1:1");
    refused(command.env("GPUWHY_FLEET_TOKEN_FILE", &tokens), 1, &["is another user's (65534)"]);
}
