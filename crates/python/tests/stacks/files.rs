//! Interpreters whose files are not where or what they should be.

use crate::check_plainly;
use crate::pythons::pythons;
use crate::victim::Victim;
use gpuwhy_python::find;
use gpuwhy_testkit::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the file an interpreter is in, and how to run it.
struct Copy {
    folder: tempfile::TempDir,
    file: PathBuf,
    library_of: Option<String>,
    home: String,
}

impl Copy {
    /// `name`: what an executable is called; a library keeps its name.
    fn of(command: &str, name: Option<&str>) -> Option<Self> {
        let victim = Victim::start(command, "plain")?;
        let file = find(victim.reported.pid).unwrap().expect("no Python found").file;
        let exe = fs::read_link(format!("/proc/{}/exe", victim.reported.pid)).unwrap();
        let own = Path::new(&file).file_name().unwrap().to_str().unwrap();
        let is_library = own.starts_with("lib");
        if !is_library && exe != Path::new(&file) {
            println!("{command} does not run without its loader");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join(if is_library { own } else { name.unwrap_or(own) });
        fs::copy(&file, &copy).unwrap();
        let home = Command::new(command).args(["-c", "import sys; print(sys.base_prefix)"]).output().unwrap();
        Some(Self {
            folder,
            file: copy,
            library_of: is_library.then(|| exe.display().to_string()),
            home: String::from_utf8(home.stdout).unwrap().trim().to_string(),
        })
    }

    fn start(&self) -> Victim {
        let mut command = match &self.library_of {
            Some(exe) => {
                let mut command = Command::new(exe);
                command.env("LD_PRELOAD", &self.file);
                command
            }
            None => Command::new(&self.file),
        };
        Victim::start_as(command.env("PYTHONHOME", &self.home), "plain").unwrap()
    }
}

#[test]
fn a_file_that_was_replaced_is_read_as_it_was() {
    let mut checked = 0;
    for command in pythons() {
        let Some(copy) = Copy::of(&command, None) else { continue };
        let victim = copy.start();
        let is_root = fs::read_dir(format!("/proc/{}/map_files", victim.reported.pid))
            .is_ok_and(|mut entries| entries.any(|entry| fs::metadata(entry.unwrap().path()).is_ok()));
        if !is_root {
            skip(
                "a_file_that_was_replaced_is_read_as_it_was",
                "files that were replaced can be read by root alone",
            );
            return;
        }
        fs::remove_file(&copy.file).unwrap();
        check_plainly("deleted", &victim);
        fs::write(&copy.file, "another version").unwrap();
        let interpreter = check_plainly("replaced", &victim);
        assert_eq!(Path::new(&interpreter.file), copy.file);
        assert!(copy.folder.path().exists());
        checked += 1;
    }
    if checked == 0 {
        skip("a_file_that_was_replaced_is_read_as_it_was", "no Python here runs as a copy of itself");
    }
}

#[test]
fn a_program_of_another_name_embeds_python() {
    let mut checked = 0;
    for command in pythons() {
        let Some(copy) = Copy::of(&command, Some("trainer")) else { continue };
        let interpreter = check_plainly("embedded", &copy.start());
        println!("{} of {}", interpreter.version, interpreter.file);
        assert!(
            interpreter.version.micro > 0 || interpreter.version.minor == 13,
            "{:?}",
            interpreter.version
        );
        checked += 1;
    }
    if checked == 0 {
        skip("a_program_of_another_name_embeds_python", "no Python here runs as a copy of itself");
    }
}

#[test]
fn a_file_without_the_symbol_has_its_section() {
    let mut checked = 0;
    for command in pythons() {
        let Some(copy) = Copy::of(&command, None) else { continue };
        // A library uses the name itself.
        if copy.library_of.is_some() {
            continue;
        }
        // As if it was stripped of the name: by another of the same length.
        let name = b"\0_PyRuntime\0";
        let mut bytes = fs::read(&copy.file).unwrap();
        while let Some(at) = bytes.windows(name.len()).position(|window| window == name) {
            bytes[at + 5] = b'X';
        }
        fs::write(&copy.file, bytes).unwrap();
        let victim = copy.start();
        if let Err(error) = find(victim.reported.pid) {
            assert!(error.to_string().contains("3.9") && error.to_string().contains("stripped"), "{error}");
            continue;
        }
        check_plainly("stripped", &victim);
        checked += 1;
    }
    if checked == 0 {
        skip("a_file_without_the_symbol_has_its_section", "no Python here is a program whose sections tell");
    }
}

#[test]
fn a_virtual_environment_is_its_python() {
    let mut checked = 0;
    for command in pythons() {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new(&command)
            .args(["-m", "venv", "--without-pip"])
            .arg(folder.path())
            .output()
            .unwrap()
            .status;
        let program = folder.path().join("bin/python");
        let runs =
            Command::new(&program).args(["-c", ""]).output().is_ok_and(|output| output.status.success());
        if !made.success() || !runs {
            println!("{command} makes no virtual environments");
            continue;
        }
        let victim = Victim::start(program.to_str().unwrap(), "plain").unwrap();
        check_plainly("virtual environment", &victim);
        checked += 1;
    }
    if checked == 0 {
        skip("a_virtual_environment_is_its_python", "no Python here makes virtual environments");
    }
}
