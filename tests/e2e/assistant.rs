//! Assistants, as the official MCP client is one: a scripted investigation over both transports, and the API's own description.

use crate::refusal::refused;
use crate::support::{Ended, Trace, can_trace, done, gpuwhy, skip, unavailable};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/assistant.py");
pub(crate) const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// Python with the official client, made once; None, and a skip, where it cannot be had.
fn python(test: &str) -> Option<PathBuf> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = PYTHON.get_or_init(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        let folder = cache.ok_or("there is no cache folder")?.join("gpuwhy/mcp-client");
        let python = folder.join("bin/python");
        let works = |python: &Path| {
            let words = ["-c", "import mcp, jsonschema, openapi_spec_validator"];
            Command::new(python)
                .args(words)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if works(&python) {
            return Ok(python);
        }
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
        let installed = made.is_ok_and(|made| made.status.success())
            && Command::new(folder.join("bin/pip"))
                .args(["install", "-q", "mcp", "jsonschema", "openapi-spec-validator"])
                .output()
                .is_ok_and(|output| output.status.success());
        match installed && works(&python) {
            true => Ok(python),
            false => Err("the official MCP client cannot be installed with pip".into()),
        }
    });
    match made {
        Ok(python) => Some(python.clone()),
        Err(reason) => {
            unavailable(test, reason);
            None
        }
    }
}

/// A trace with a finding in it, that needs no eBPF to be made.
fn trace() -> Trace {
    let trace = Trace::new();
    done(gpuwhy().args(["demo", "h200-item", "--replay", "--out"]).arg(trace.file()).output().unwrap());
    trace
}

fn investigated(command: &mut Command, test: &str) {
    if can_trace(test) {
        command.env("GPUWHY_CAN_TRACE", "1");
    }
    let checked: Vec<String> = serde_json::from_str(&done(command.output().unwrap())).unwrap();
    assert!(checked.contains(&"cancellation".to_string()), "{checked:?}");
    eprintln!("{test}: {}", checked.join("; "));
}

#[test]
fn the_official_client_investigates_over_stdio() {
    let test = "the_official_client_investigates_over_stdio";
    let Some(python) = python(test) else { return };
    let trace = trace();
    let mut command = Command::new(python);
    command.arg(SCRIPT).args(["stdio", env!("CARGO_BIN_EXE_gpuwhy"), "mcp"]).arg(trace.file());
    investigated(&mut command, test);
}

/// A server in the background, and where it is.
pub(crate) fn served(command: &mut Command) -> (Ended, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("http")).unwrap();
    (Ended(child), address.trim_end_matches(';').to_string())
}

/// For localhost: the certificate's file and its key's; None where openssl cannot make them.
pub(crate) fn certificate(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    made.is_ok_and(|made| made.status.success()).then_some((cert, key))
}

#[test]
fn the_official_client_investigates_over_http_with_tls_and_a_token() {
    let test = "the_official_client_investigates_over_http_with_tls_and_a_token";
    let Some(python) = python(test) else { return };
    let trace = trace();
    let folder = trace.folder.path();
    let tokens = folder.join("tokens");
    let Some((cert, key)) = certificate(folder) else {
        return skip(test, "openssl cannot make a certificate");
    };
    std::fs::write(&tokens, TOKEN).unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (server, address) = served(
        gpuwhy()
            .arg("mcp")
            .arg(trace.file())
            .args(["--http", "127.0.0.1:0", "--tls-cert"])
            .arg(&cert)
            .arg("--tls-key")
            .arg(&key)
            .arg("--token-file")
            .arg(&tokens),
    );
    assert!(address.starts_with("https://127.0.0.1:") && address.ends_with("/mcp"), "{address}");
    let mut command = Command::new(python);
    command
        .arg(SCRIPT)
        .args(["http", &address])
        .env("GPUWHY_TOKEN", TOKEN)
        .env("SSL_CERT_FILE", &cert)
        .env("GPUWHY_SERVER_PID", server.0.id().to_string());
    investigated(&mut command, test);
}

#[test]
fn the_api_describes_itself_to_other_peoples_tools() {
    let Some(python) = python("the_api_describes_itself_to_other_peoples_tools") else { return };
    let trace = trace();
    let (_server, address) =
        served(gpuwhy().arg("dashboard").arg(trace.file()).args(["--listen", "127.0.0.1:0", "--open"]));
    // Each answer is what the document says it is.
    let script = "
import json, sys, urllib.request, urllib.error
import jsonschema, openapi_spec_validator
base = sys.argv[1].rstrip('/')
document = json.load(urllib.request.urlopen(base + '/api/v1/openapi.json'))
openapi_spec_validator.validate(document)
answered = 0
for path, methods in document['paths'].items():
    if path.endswith('test_report'):
        continue
    request = {'statement': 'SELECT * FROM op_summary'} if path.endswith('/sql') else {}
    try:
        reply = urllib.request.urlopen(urllib.request.Request(base + path, json.dumps(request).encode(), method='POST'))
    except urllib.error.HTTPError as error:
        assert error.code == 404, (path, error.read())
        continue
    schema = dict(methods['post']['responses']['200']['content']['application/json']['schema'])
    schema['components'] = document['components']
    jsonschema.validate(json.load(reply), schema, jsonschema.Draft202012Validator)
    answered += 1
print(json.dumps({'answered': answered, 'paths': len(document['paths'])}))
";
    let output = done(Command::new(python).args(["-c", script, &address]).output().unwrap());
    let counts: Value = serde_json::from_str(&output).unwrap();
    assert!(
        counts["answered"].as_u64().unwrap() >= 15 && counts["paths"].as_u64().unwrap() >= 26,
        "{counts}"
    );
}

#[test]
fn servers_refuse_to_be_open_in_a_sentence() {
    let trace = trace();
    let file = trace.file();
    let folder = trace.folder.path();
    let open = folder.join("open-tokens");
    std::fs::write(&open, TOKEN).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let needs = "so it needs TLS and a token";
    refused(gpuwhy().arg("dashboard").arg(&file).args(["--listen", "0.0.0.0:0"]), 2, &[needs]);
    refused(gpuwhy().arg("mcp").arg(&file).args(["--http", "0.0.0.0:0"]), 2, &[needs]);
    refused(
        gpuwhy().env("GPUWHY_TOKEN", TOKEN).arg("mcp").arg(&file).args(["--http", "0.0.0.0:0"]),
        2,
        &[needs],
    );
    refused(
        gpuwhy().arg("dashboard").arg(&file).arg("--token-file").arg(&open),
        1,
        &["can be read or written by everybody", "chmod"],
    );
    refused(gpuwhy().env("GPUWHY_TOKEN", "short").arg("dashboard").arg(&file), 1, &["16 characters"]);
    refused(gpuwhy().arg("dashboard").arg(&file).args(["--tls-cert", "x"]), 2, &["--tls-key"]);
    refused(
        gpuwhy().arg("dashboard").arg(&file).args(["--tls-cert", "/none", "--tls-key", "/none"]),
        1,
        &["certificate /none cannot be used"],
    );
    refused(
        gpuwhy().arg("dashboard").arg(&file).args(["--listen", "nowhere"]),
        2,
        &["write it as 127.0.0.1:7777"],
    );
    refused(gpuwhy().arg("dashboard").arg(folder.join("none.db")), 1, &["there is no trace at"]);
    refused(gpuwhy().arg("mcp").arg(&file).arg("--token-file").arg(&open), 2, &["are for --http ADDR"]);
    // A token is never a word of the command line, which everybody can read.
    for command in ["mcp", "dashboard"] {
        refused(gpuwhy().arg(command).args(["--token", TOKEN]), 2, &["unexpected argument '--token'"]);
    }
}
