//! Every documented command, run as it would be pasted. A block that cannot be run says why in the line before it:
//! `<!-- not run: REASON -->`.

use crate::assistant::{TOKEN, certificate};
use crate::explain::example;
use crate::support::{Ended, PATIENCE, can_trace, gpuwhy, signal, sim, simwork, skip};
use rusqlite::Connection;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MARKER: &str = "<!-- not run: ";
/// What stands for a process of the reader's in the docs.
const PID: &str = "4242";

const FLEET: &str = "gpuwhy-fleet ";

/// What no test host has, wherever it is written; each is tested elsewhere.
const NEEDS: [(&str, &str); 6] = [
    ("--nodes ", "it needs other nodes: nodes.rs has some"),
    ("--cgroup ", "it needs a cgroup of the reader's: discovery.rs makes one"),
    ("--tls-cert ", "it needs a certificate: connections.rs makes one"),
    ("...", "it says what may be given"),
    ("[FILE]", "it says what may be given"),
    ("gpuwhy annotate", "it needs a trace that listens: marks.rs has one"),
];

/// A command of a page, and the line it is at.
#[derive(Debug)]
struct Documented {
    page: String,
    line: usize,
    text: String,
}

fn pages() -> Vec<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = fs::read_dir(repository.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        // Their screens are compared with the program's elsewhere.
        .filter(|path| path.file_name().is_some_and(|name| name != "screens.md" && name != "live.md"))
        .collect();
    pages.push(repository.join("README.md"));
    pages.sort();
    pages
}

/// Without what is said of it.
fn before_comment(command: &str) -> &str {
    command.split(" # ").next().unwrap_or(command)
}

/// Whether every quote is closed.
fn is_whole(text: &str) -> bool {
    text.matches('"').count().is_multiple_of(2) && !text.trim_end().ends_with('\\')
}

/// The commands of a page, and the reasons for which blocks of it are not run.
fn commands(page: &Path) -> (Vec<Documented>, Vec<String>) {
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let (mut is_block, mut reason) = (false, None::<String>);
    let mut open: Option<Documented> = None;
    for (number, line) in fs::read_to_string(page).unwrap().lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            if !is_block {
                reason = None;
            }
            continue;
        }
        if !is_block {
            let marked = line.strip_prefix(MARKER).map(|rest| rest.trim_end_matches(" -->").to_string());
            if marked.is_some() || !line.trim().is_empty() {
                reason = marked;
            }
            continue;
        }
        if let Some(command) = &mut open {
            command.text += &format!("\n{line}");
        } else {
            let bare = line.strip_prefix("$ ").unwrap_or(line);
            let words = bare.split_whitespace().skip_while(|word| *word == "sudo" || word.contains('='));
            let is_ours = match words.clone().next() {
                Some("gpuwhy" | "gpuwhy-fleet") => true,
                Some("ssh") => words.clone().any(|word| word == "gpuwhy"),
                _ => false,
            };
            if !is_ours || bare.starts_with(' ') {
                continue;
            }
            let needs = NEEDS
                .iter()
                .find(|(words, _)| before_comment(bare).contains(words) && !bare.starts_with(FLEET))
                .map(|(_, why)| (*why).to_string());
            if let Some(reason) = reason.clone().or(needs) {
                left_out.push(format!("{name}:{}: {reason}: {bare}", number + 1));
                continue;
            }
            open = Some(Documented { page: name.clone(), line: number + 1, text: bare.into() });
        }
        if let Some(command) = open.take_if(|command| is_whole(&command.text)) {
            found.push(command);
        }
    }
    (found, left_out)
}

/// A line of a block with `#` before the prose behind its command: a shell would take that for arguments.
fn with_comment(line: &str) -> String {
    // `ask` is a function that a page defines.
    const COMMANDS: [&str; 6] = ["gpuwhy ", "gpuwhy-fleet ", "sudo gpuwhy ", "ssh ", "curl ", "ask "];
    let bare = line.strip_prefix("$ ").unwrap_or(line);
    if !COMMANDS.iter().any(|command| bare.starts_with(command)) {
        return line.into();
    }
    let mut quote: Option<char> = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if (c == '"' || c == '\'') && quote.is_none_or(|open| open == c) {
            quote = if quote.is_some() { None } else { Some(c) };
        }
        let rest = &line[at..];
        if quote.is_none() && before != ' ' && rest.starts_with("  ") {
            let prose = rest.trim_start();
            // Options after a gap are options in columns; behind what runs in the background comes another command.
            let is_prose = !prose.is_empty()
                && !prose.starts_with(['#', '-', '"', '|', '&', '>'])
                && !line[..at].ends_with(['&', ';', '|']);
            let words = line[..at].split_whitespace().filter(|word| *word != "$" && *word != "sudo").count();
            if is_prose && words >= 2 {
                let gap = &rest[..rest.len() - prose.len()];
                return format!("{}{gap}# {prose}", &line[..at]);
            }
        }
        before = c;
    }
    line.into()
}

/// With GPUWHY_WRITE_DOCS=1 they become comments.
#[test]
fn prose_behind_a_command_is_a_comment() {
    let is_writing = std::env::var_os("GPUWHY_WRITE_DOCS").is_some();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut is_block = false;
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                is_block ^= line.trim_start().starts_with("```");
                let better = if is_block { with_comment(line) } else { line.to_string() };
                if better != line {
                    wrong.push(format!("{}: {line}", page.display()));
                }
                better
            })
            .collect();
        if is_writing {
            fs::write(&page, lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(
        is_writing || wrong.is_empty(),
        "prose that a shell would take for arguments:\n{}",
        wrong.join("\n")
    );
    assert_eq!(with_comment("gpuwhy explain run.db   why?"), "gpuwhy explain run.db   # why?");
    assert_eq!(with_comment("ssh node gpuwhy dashboard  the same"), "ssh node gpuwhy dashboard  # the same");
    for whole in [
        "gpuwhy query   --nodes a",
        "gpuwhy query \"a  b\"",
        "gpuwhy check  # ready?",
        "echo  gpuwhy",
        "ssh -N node-a &  ssh -N node-b &",
    ] {
        assert_eq!(with_comment(whole), whole);
    }
}

/// A folder with what the docs speak of: traces, a token file, programs to trace.
struct Desk {
    folder: tempfile::TempDir,
    path: std::ffi::OsString,
}

impl Desk {
    fn new() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let replay = |demo: &str, file: &Path| {
            let output = gpuwhy().args(["demo", demo, "--replay", "--out"]).arg(file).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        // Without privileges nothing is traced, and what is asked of it has rows all the same.
        for name in ["run.db", "slow.db", "before.db", "after.db", "node-0.db", "node-1.db", "node-2.db"] {
            replay("tour", &at(name));
        }
        give_pid(&at("run.db"));
        // The README shows its screen.
        example("loader-cpu", folder.path());
        let bin = at("bin");
        fs::create_dir(&bin).unwrap();
        let script = |name: &str, text: &str| {
            fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        // A training script, whatever starts it, is a few launches on the simulated GPU.
        let train = format!("exec {} train --steps 20", simwork().display());
        for name in ["python", "python3", "torchrun"] {
            script(name, &train);
        }
        script("sudo", "exec \"$@\"");
        script("go", "exit 0");
        // Another node is this one.
        let options = "while case $1 in -[LRDpio]) shift;; -*) ;; *) false;; esac; do shift; done";
        script("ssh", &format!("{options}\nshift\nexec sh -c \"exec $*\""));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gpuwhy"), bin.join("gpuwhy")).unwrap();
        if let Some(fleet) = fleet() {
            std::os::unix::fs::symlink(fleet, bin.join("gpuwhy-fleet")).unwrap();
        }
        let paths = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
        let path = std::env::join_paths(std::iter::once(bin).chain(paths)).unwrap();
        Desk { folder, path }
    }

    fn shell(&self, text: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("GPUWHY_DB", self.folder.path().join("run.db"))
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("LD_LIBRARY_PATH", sim())
            .env("NO_COLOR", "1")
            .arg("-c")
            .arg(format!("exec {text}"));
        shell
    }
}

/// The cluster's binary, where it was built beside this one.
fn fleet() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_gpuwhy")).with_file_name("gpuwhy-fleet");
    beside.is_file().then_some(beside)
}

/// One of its processes gets the number that the docs use.
fn give_pid(file: &Path) {
    let db = Connection::open(file).unwrap();
    let sql = "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'pid'";
    let tables: Vec<String> =
        db.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let pid: i64 = db
        .query_row("SELECT pid FROM call_stats GROUP BY pid ORDER BY sum(count) DESC LIMIT 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    for table in tables {
        db.execute(&format!("UPDATE {table} SET pid = {PID} WHERE pid = {pid}"), []).unwrap();
    }
}

/// Runs until it ends by itself, or says that it is ready and is interrupted. Whether it had rows.
fn run(desk: &Desk, text: &str, ready: Option<&str>) -> Result<bool, String> {
    let mut shell = desk.shell(text);
    let mut child = shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let pid = child.id();
    let (message, heard) = std::sync::mpsc::channel();
    let streams: [Box<dyn Read + Send>; 2] =
        [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    for stream in streams {
        let message = message.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = message.send(line);
            }
        });
    }
    drop(message);
    let mut child = Ended(child);
    let until = Instant::now() + PATIENCE;
    let mut lines = Vec::new();
    loop {
        match heard.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                if ready.is_some_and(|ready| line.contains(ready)) {
                    signal(pid, "INT");
                }
                lines.push(line);
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if Instant::now() > until => {
                return Err(format!("it did not end: {}", lines.join("\n")));
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    let status = child.0.wait().map_err(|error| error.to_string())?;
    // Some traces have no such rows; that is an answer, too.
    match status.code() {
        Some(0) => Ok(true),
        Some(3) => Ok(false),
        None if ready.is_some() => Ok(true),
        _ => Err(format!("{status}: {}", lines.join("\n"))),
    }
}

#[test]
fn every_documented_command_runs_as_pasted() {
    const TEST: &str = "every_documented_command_runs_as_pasted";
    let may_trace = can_trace(TEST);
    let desk = Desk::new();
    let target = Ended(
        Command::new(simwork())
            .args(["launch", "--launches", "0", "--via", "driver", "--hz", "50"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let (mut failed, mut ran, mut left_out) = (Vec::new(), 0, Vec::new());
    for page in pages() {
        let (found, marked) = commands(&page);
        left_out.extend(marked);
        for Documented { page, line, text } in found {
            // The next test has these.
            if text.starts_with(FLEET) {
                continue;
            }
            let name =
                text.split_whitespace().skip_while(|word| *word != "gpuwhy").nth(1).unwrap_or_default();
            let (ready, pasted) = match name {
                "trace" | "top" if !may_trace => continue,
                "trace" | "top" => {
                    let ready = if name == "top" { " UTC  " } else { "tracing into" };
                    let live = text.replace(PID, &target.0.id().to_string());
                    (Some(ready), live)
                }
                // Any free port: the usual one may be somebody's.
                "dashboard" if !text.contains("--listen") && !text.contains("--port") => {
                    (Some(" at http"), text.replacen("gpuwhy dashboard", "gpuwhy dashboard --port 0", 1))
                }
                "dashboard" => (Some(" at http"), text.replace(":7777", ":0")),
                _ => (None, text.clone()),
            };
            // An earlier page may have made it.
            if let Some(made) = pasted.split_whitespace().skip_while(|word| *word != "-o").nth(1) {
                let made = desk.folder.path().join(made);
                let _ = fs::remove_file(&made).or_else(|_| fs::remove_dir_all(&made));
            }
            ran += 1;
            match run(&desk, &pasted, ready) {
                Ok(true) => {}
                // The landing page promises an answer.
                Ok(false) if page == "README.md" => {
                    failed.push(format!("{page}:{line}: {text}\n    no rows"));
                }
                Ok(false) => {}
                Err(why) => failed.push(format!("{page}:{line}: {text}\n    {why}")),
            }
        }
    }
    for line in &left_out {
        eprintln!("not run, as its page says: {line}");
    }
    assert!(failed.is_empty(), "{} of {ran} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(ran >= 50, "{ran} commands");
}

/// With a certificate and tokens of the test's, on any free ports, in a folder of the test's.
#[test]
fn every_documented_command_of_the_fleet_runs_as_pasted() {
    const TEST: &str = "every_documented_command_of_the_fleet_runs_as_pasted";
    let found: Vec<Documented> = pages()
        .iter()
        .flat_map(|page| commands(page).0)
        .filter(|command| command.text.starts_with(FLEET))
        .collect();
    assert!(!found.is_empty(), "no page starts a server");
    if fleet().is_none() {
        return skip(TEST, "gpuwhy-fleet is not built; `make fleet` builds it");
    }
    let desk = Desk::new();
    if certificate(desk.folder.path()).is_none() {
        return skip(TEST, "openssl cannot make a certificate");
    }
    let tokens = desk.folder.path().join("tokens");
    fs::write(&tokens, format!("{TOKEN} training push,read\n")).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    for Documented { page, line, text } in found {
        let ports = ["--otlp-grpc", "--otlp-http", "--api"].map(|http| format!("{http} 127.0.0.1:0"));
        let pasted = format!("{} {}", text.replace("/var/lib/gpuwhy-fleet", "fleet"), ports.join(" "));
        if let Err(why) = run(&desk, &pasted, Some("OTLP at ")) {
            panic!("{page}:{line}: {text}\n    {why}");
        }
    }
}

/// A server in the background and questions to it: a block that is pasted as a whole, on any free port.
#[test]
fn the_example_of_the_http_api_answers() {
    const TEST: &str = "the_example_of_the_http_api_answers";
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if let Some(missing) = ["openssl", "curl", "jq"].into_iter().find(|program| !has(program)) {
        return skip(TEST, &format!("there is no {missing}"));
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("docs/serve.md")).unwrap();
    let block = page.split("```\n").find(|block| block.starts_with("export GPUWHY_TOKEN=")).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let block = block.replace(":7777", &format!(":{port}"));
    let block =
        block.replace("gpuwhy dashboard run.db &", &format!("gpuwhy dashboard run.db --port {port} &"));
    let desk = Desk::new();
    let output = desk.shell("bash -c 'eval \"$BLOCK\"; kill $!; wait'").env("BLOCK", block).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // What can be asked, the worst finding, blame by cause, and rows.
    for words in ["\"/api/v1/explain\"", "comes late to its collectives", "\"cause\"", "\"p99_us\""] {
        assert!(
            text.contains(words),
            "{words} is not in\n{text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The example of the Python module has all names it uses.
#[test]
fn the_annotations_example_runs() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("docs/annotations.md")).unwrap();
    let example = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let given = "loader, rank, id = [1, 2], 0, 'r1'\ntrain = print\n";
    let output = Command::new("python3")
        .env("PYTHONPATH", repository.join("python"))
        .env("GPUWHY_ANNOTATE", "off")
        .arg("-c")
        .arg(format!("{given}{example}"))
        .output();
    match output {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip("the_annotations_example_runs", &format!("there is no python3: {error}")),
    }
}
