//! A writer that is killed leaves everything it committed, and readers of every kind can have it.

use crate::made::{calls, writer};
use gpuwhy_model::Facts;
use gpuwhy_store::{Options, Reader, StoreError, Writer};
use gpuwhy_testkit::skip;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ROLE: &str = "GPUWHY_STORE_TEST_ROLE";
const FILE: &str = "GPUWHY_STORE_TEST_FILE";

/// This very test program in another role, at the file.
fn other_process(program: &Path, role: &str, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", "crash::role", "--nocapture"]).env(ROLE, role).env(FILE, path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Not a test of its own: what the other processes do.
#[test]
fn role() {
    let (Ok(role), Ok(file)) = (std::env::var(ROLE), std::env::var(FILE)) else { return };
    let path = Path::new(&file);
    match role.as_str() {
        "write" => {
            let mut writer = writer(path);
            for round in 0..50 {
                writer.write(&calls(round * 100..round * 100 + 100), &Facts::default()).unwrap();
                writer.commit().unwrap();
            }
            writer.write(&calls(9000..9100), &Facts::default()).unwrap();
            println!("\ncommitted");
            std::thread::park();
        }
        "read" => println!("\nevents {}", Reader::open(path).unwrap().event_count().unwrap()),
        "refuse" => {
            let error = Writer::create_or_append(path, &crate::made::session(), &[], &Options::default())
                .unwrap_err();
            println!("\n{error}");
        }
        "unreadable" => println!("\n{}", Reader::open(path).unwrap_err()),
        other => panic!("no such role: {other}"),
    }
}

fn line(child: &mut Child, start: &str) -> String {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).find(|line| line.contains(start));
    found.unwrap_or_else(|| {
        let mut words = String::new();
        let _ = std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut words);
        panic!("no line with '{start}': {words}")
    })
}

fn killed(path: &Path) {
    let mut child = other_process(&std::env::current_exe().unwrap(), "write", path).spawn().unwrap();
    line(&mut child, "committed");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_writer_leaves_what_it_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    killed(&path);
    let log = folder.path().join("trace.db-wal");
    assert!(log.exists());
    let bytes = |path: &Path| (std::fs::read(path).unwrap(), path.metadata().unwrap().modified().unwrap());
    let before = (bytes(&path), bytes(&log));
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.event_count().unwrap(), 5000);
    assert_eq!(reader.sessions().unwrap()[0].end_ns, None);
    drop(reader);
    assert_eq!((bytes(&path), bytes(&log)), before, "reading changed the file");
    let mut writer = writer(&path);
    writer.write(&calls(0..1), &Facts::default()).unwrap();
    writer.finish(1).unwrap();
    assert!(!log.exists());
    assert_eq!(Reader::open(&path).unwrap().event_count().unwrap(), 5001);
}

#[test]
fn another_process_is_told_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let mut first = writer(&path);
    let mut child = other_process(&std::env::current_exe().unwrap(), "refuse", &path).spawn().unwrap();
    let words = line(&mut child, "another gpuwhy trace");
    child.wait().unwrap();
    assert!(words.contains(&format!("(pid {})", std::process::id())), "{words}");
    first.write(&calls(0..1), &Facts::default()).unwrap();
    first.finish(1).unwrap();
}

/// As a user who may read the file but not write to its folder, with and without the shared index in it.
#[test]
fn anybody_can_read_an_unfinished_file_in_a_folder_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.db");
    killed(&path);
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // As its owner opens it to others: by itself it is for nobody else.
    for name in ["trace.db", "trace.db-wal", "trace.db-shm"] {
        let file = folder.path().join(name);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let unprivileged = |role: &str| other_process(&program, role, &path).uid(65534).gid(65534).spawn();
    let Ok(mut child) = unprivileged("read") else {
        return skip(
            "anybody_can_read_an_unfinished_file_in_a_folder_of_others",
            "only root can start a process of another user",
        );
    };
    assert!(line(&mut child, "events").ends_with("events 5000"));
    child.wait().unwrap();
    let before = std::fs::read(&path).unwrap();
    std::fs::remove_file(folder.path().join("trace.db-shm")).unwrap();
    let mut child = unprivileged("read").unwrap();
    assert!(line(&mut child, "events").ends_with("events 5000"));
    child.wait().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut child = unprivileged("unreadable").unwrap();
    let words = line(&mut child, "trace.db");
    child.wait().unwrap();
    assert!(words.contains("permission denied"), "{words}");
}

#[test]
fn errors_are_sentences_for_callers_to_tell_apart() {
    let missing = Reader::open(Path::new("/nonexistent/trace.db")).unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { .. }));
    assert!(missing.to_string().contains("gpuwhy trace"));
}
