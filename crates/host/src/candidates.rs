//! Folders in which a program about to start will look for its libraries, so that probes are in place before its
//! first call. What is missed here is still found when it is mapped.

use gpuwhy_elf::Layout;
use gpuwhy_proc::regular;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Words of a command line that are looked at; the rest are arguments to something already seen.
const MAX_WORDS: usize = 64;

/// A program as it will be started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The command line as typed. Any word may be the program that matters: `env A=1 x`, `sh -c "x; y"`, `timeout 9 x`.
    pub words: Vec<String>,
    pub path_variable: Option<String>,
    pub library_path: Option<String>,
    pub virtual_env: Option<String>,
    pub conda_prefix: Option<String>,
}

impl Program {
    /// A command that gets this process's environment.
    pub fn inheriting(words: &[impl AsRef<OsStr>]) -> Self {
        let get = |name: &str| std::env::var(name).ok();
        Program {
            words: words.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect(),
            path_variable: get("PATH"),
            library_path: get("LD_LIBRARY_PATH"),
            virtual_env: get("VIRTUAL_ENV"),
            conda_prefix: get("CONDA_PREFIX"),
        }
    }

    /// The files the command line names, each by the rules of execvp.
    fn files(&self) -> Vec<PathBuf> {
        let breaks = |c: char| c.is_whitespace() || ";&|()<>'\"`$=".contains(c);
        self.words
            .iter()
            .flat_map(|word| word.split(breaks))
            .filter(|word| !word.is_empty() && !word.starts_with('-'))
            .take(MAX_WORDS)
            .filter_map(|word| self.file(word))
            .collect()
    }

    fn file(&self, word: &str) -> Option<PathBuf> {
        if word.contains('/') {
            return Some(PathBuf::from(word)).filter(|path| path.is_file());
        }
        let path = self.path_variable.as_deref().unwrap_or("/usr/bin:/bin");
        path.split(':').map(|folder| Path::new(folder).join(word)).find(|path| path.is_file())
    }
}

/// Where GPU libraries usually are, on any host.
const USUAL: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/nvidia",
    "/usr/lib/wsl/lib",
    "/opt/conda/lib",
];

/// Every folder worth a look; `program` adds its own.
pub fn candidate_folders(program: Option<&Program>) -> Vec<PathBuf> {
    let mut folders: BTreeSet<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
    folders.extend(ld_so_conf());
    if let Some(program) = program {
        folders.extend(program.library_path.iter().flat_map(|paths| paths.split(':')).map(PathBuf::from));
        for prefix in [&program.virtual_env, &program.conda_prefix].into_iter().flatten() {
            folders.insert(Path::new(prefix).join("lib"));
            folders.extend(wheel_folders(Path::new(prefix)));
        }
        for file in program.files() {
            folders.extend(own_folders(&file, program));
        }
    }
    folders.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// What the program's file itself says: its folder, its run path, and the wheels beside an interpreter.
fn own_folders(file: &Path, program: &Program) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    // A script is run by its interpreter; that is where its wheels are.
    let real = interpreter_of(&real, program).unwrap_or(real);
    for path in [file, &real] {
        let Some(bin) = path.parent() else { continue };
        folders.push(bin.to_path_buf());
        if let Some(prefix) = bin.parent() {
            folders.push(prefix.join("lib"));
            folders.extend(wheel_folders(prefix));
        }
    }
    folders.extend(run_paths(&real));
    folders
}

/// `#!/usr/bin/env python3` and `#!/opt/venv/bin/python`.
fn interpreter_of(file: &Path, program: &Program) -> Option<PathBuf> {
    let opened = regular(file)?;
    let words = gpuwhy_confine::parse(move || first_line(opened)).flatten()?;
    let mut words = words.iter().map(String::as_str);
    let first = words.next()?;
    let interpreter = if first.ends_with("/env") {
        program.file(words.find(|word| !word.starts_with('-') && !word.contains('='))?)?
    } else {
        PathBuf::from(first)
    };
    fs::canonicalize(interpreter).ok()
}

/// The words of a script's first line, if it is one that names an interpreter.
fn first_line(mut file: File) -> Option<Vec<String>> {
    let mut start = [0u8; 256];
    let length = file.read(&mut start).ok()?;
    let line = std::str::from_utf8(start.get(..length)?).ok()?.strip_prefix("#!")?.lines().next()?;
    Some(line.split_whitespace().map(str::to_string).collect())
}

/// DT_RPATH and DT_RUNPATH with $ORIGIN put in.
fn run_paths(file: &Path) -> Vec<PathBuf> {
    let Some(origin) = file.parent() else { return Vec::new() };
    let Some(opened) = regular(file) else { return Vec::new() };
    let read = move || Layout::read(&opened).map(|layout| layout.run_paths(&opened));
    let paths = gpuwhy_confine::parse(read).flatten().unwrap_or_default();
    paths
        .iter()
        .flat_map(|paths| paths.split(':'))
        .map(|path| path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &origin.to_string_lossy()))
        .map(PathBuf::from)
        .collect()
}

/// `lib/python3.*/site-packages/{nvidia/*/lib,torch/lib}` and Debian's dist-packages.
fn wheel_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for python in subfolders(&prefix.join("lib")) {
        if !python.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")) {
            continue;
        }
        for packages in ["site-packages", "dist-packages"] {
            let packages = python.join(packages);
            folders.push(packages.join("torch/lib"));
            folders.extend(subfolders(&packages.join("nvidia")).into_iter().map(|wheel| wheel.join("lib")));
        }
    }
    folders
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
}

/// The dynamic linker's own configuration.
fn ld_so_conf() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    if let Ok(entries) = fs::read_dir("/etc/ld.so.conf.d") {
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().map(|line| line.trim().to_string()).collect::<Vec<_>>())
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(words: &[&str]) -> Program {
        Program {
            words: words.iter().map(ToString::to_string).collect(),
            path_variable: Some("/no/such:/usr/bin:/bin".into()),
            library_path: None,
            virtual_env: None,
            conda_prefix: None,
        }
    }

    #[test]
    fn wheels_and_library_paths_are_candidates() {
        let root = tempfile::tempdir().unwrap();
        let wheel = root.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        let extra = root.path().join("extra");
        fs::create_dir_all(&wheel).unwrap();
        fs::create_dir_all(&extra).unwrap();
        let mut program = program(&["no-such-command"]);
        program.virtual_env = Some(root.path().display().to_string());
        program.library_path = Some(format!("{}:/no/such/folder", extra.display()));
        let folders = candidate_folders(Some(&program));
        assert!(folders.contains(&wheel) && folders.contains(&extra));
        assert!(!folders.contains(&PathBuf::from("/no/such/folder")));
    }

    #[test]
    fn a_command_is_found_as_the_shell_would() {
        assert!(program(&["sh", "-c"]).files()[0].ends_with("sh"));
        assert!(program(&["/no/such/file"]).files().is_empty());
    }

    #[test]
    fn programs_behind_wrappers_are_found() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::write(&inner, "").unwrap();
        let shown = inner.display();
        for words in [
            vec!["env", "A=1", &shown.to_string()],
            vec!["sh", "-c", &format!("cd /; ({shown} --x & wait); exec {shown}")],
        ] {
            let folders = candidate_folders(Some(&program(&words)));
            assert!(folders.contains(&root.path().to_path_buf()), "{words:?}");
        }
    }
}
