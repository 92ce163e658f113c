//! Library files that a process is likely to map later, told by what it maps now: an interpreter's packages, and folders
//! beside libraries it has. Probes on them are in place before their code runs.

use crate::Root;
use crate::environment::Environment;
use gpuwhy_proc::{Inside, MappedFile, TargetFile, look};
use std::fs;

/// Of one hint: a real installation has a dozen folders, and a handful of files that matter.
const MAX_FOLDERS: usize = 64;
const MAX_FILES: usize = 32;
/// Installations that one process's environment may name.
const MAX_PREFIXES: usize = 16;
const MAX_WORDS: usize = 64;

/// What a mapping tells about where other libraries are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A Python interpreter: its packages are where its prefix and its environment say.
    Interpreter,
    /// A folder of Python packages: those of GPU vendors are beside each other in it.
    Packages(String),
    /// A folder with a GPU library: others may be in it.
    Folder(String),
}

impl Hint {
    /// `is_library` is whether the file is a GPU library.
    pub fn of(path: &str, is_library: bool) -> Option<Hint> {
        let name = path.rsplit('/').next().unwrap_or_default();
        if name.starts_with("python3") || name.starts_with("libpython3") {
            return Some(Hint::Interpreter);
        }
        for packages in PACKAGES {
            if let Some(at) = path.find(&format!("/{packages}/")) {
                return Some(Hint::Packages(path[..=at + packages.len()].to_string()));
            }
        }
        let folder = path.strip_suffix(name)?.trim_end_matches('/');
        (is_library && !folder.is_empty()).then(|| Hint::Folder(folder.to_string()))
    }
}

const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// The files that a process may map, by their names; none if it is gone. May wait for disks, so for a thread that may.
pub fn foreseen(pid: u32, hint: &Hint, wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    let Some(inside) = Inside::of_process(pid) else { return Vec::new() };
    let folders = match hint {
        Hint::Folder(folder) => vec![folder.clone()],
        Hint::Packages(packages) => wheels(&inside, packages),
        Hint::Interpreter => of_interpreter(pid, &inside),
    };
    files_in(pid, &inside, &folders, wanted)
}

fn files_in(pid: u32, inside: &Inside, folders: &[String], wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    let mut found: Vec<MappedFile> = Vec::new();
    for folder in folders.iter().take(MAX_FOLDERS).filter(|folder| !folder.ends_with("/stubs")) {
        for name in inside.names(folder).into_iter().filter(|name| wanted(name)) {
            let path = format!("{folder}/{name}");
            let Some(file) = TargetFile::inside(inside, &path) else { continue };
            // A file often has several names, which are links to it.
            if found.iter().all(|other| other.file.id() != file.id()) && found.len() < MAX_FILES {
                found.push(MappedFile { pid, path, file });
            }
        }
    }
    found
}

/// `nvidia/*/lib` and `torch/lib` in a folder of packages.
fn wheels(inside: &Inside, packages: &str) -> Vec<String> {
    let of_vendor = inside.names(&format!("{packages}/nvidia")).into_iter();
    let of_vendor = of_vendor.map(|wheel| format!("{packages}/nvidia/{wheel}/lib"));
    std::iter::once(format!("{packages}/torch/lib")).chain(of_vendor).take(MAX_FOLDERS).collect()
}

fn of_interpreter(pid: u32, inside: &Inside) -> Vec<String> {
    let environment = Environment::of(&Root::default(), pid);
    let listed = |name: &str| {
        let words = environment.get(name).unwrap_or_default().split(':').filter(|word| word.starts_with('/'));
        words.take(MAX_WORDS).map(str::to_string).collect::<Vec<_>>()
    };
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let program = program.and_then(|path| path.to_str().map(str::to_string));
    let named = as_named(pid, inside, &listed("PATH"));
    let of_program = [named, program].into_iter().flatten().filter_map(|path| prefix_of(&path));
    let set = ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"].into_iter();
    let set = set.filter_map(|name| environment.get(name).map(str::to_string));
    let own = environment.get("HOME").map(|home| format!("{home}/.local"));
    let mut prefixes: Vec<String> = Vec::new();
    for prefix in set.chain(of_program).chain(own).chain(["/usr/local".to_string()]) {
        if prefix.starts_with('/') && !prefixes.contains(&prefix) && prefixes.len() < MAX_PREFIXES {
            prefixes.push(prefix);
        }
    }
    let mut folders: Vec<String> = prefixes.iter().flat_map(|prefix| packages_of(inside, prefix)).collect();
    folders.extend(listed("PYTHONPATH"));
    let mut folders: Vec<String> = folders.iter().flat_map(|packages| wheels(inside, packages)).collect();
    folders.extend(listed("LD_LIBRARY_PATH"));
    folders
}

/// The interpreter by the name it was started with: that of a virtual environment is a link to another's.
fn as_named(pid: u32, inside: &Inside, path_variable: &[String]) -> Option<String> {
    let words = look(pid, move || fs::read(format!("/proc/{pid}/cmdline")))?.ok()?;
    let word = std::str::from_utf8(words.split(|byte| *byte == 0).next()?).ok()?;
    if word.starts_with('/') {
        return Some(word.to_string());
    }
    if word.contains('/') {
        return None;
    }
    let mut paths = path_variable.iter().map(|folder| format!("{folder}/{word}"));
    paths.find(|path| inside.open(path).is_some())
}

/// `/opt/venv/bin/python3` is in `/opt/venv`.
fn prefix_of(program: &str) -> Option<String> {
    let folder = program.rsplit_once('/')?.0;
    Some(folder.rsplit_once('/')?.0.to_string())
}

fn packages_of(inside: &Inside, prefix: &str) -> Vec<String> {
    let versions = inside.names(&format!("{prefix}/lib")).into_iter();
    let versions = versions.filter(|name| name.starts_with("python3"));
    let folders =
        versions.flat_map(|version| PACKAGES.map(|packages| format!("{prefix}/lib/{version}/{packages}")));
    folders.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn mappings_are_hints() {
        let packages = |path: &str| Some(Hint::Packages(path.into()));
        for (path, is_library, hint) in [
            ("/usr/bin/python3.11", false, Some(Hint::Interpreter)),
            ("/usr/lib/libpython3.12.so.1.0", false, Some(Hint::Interpreter)),
            (
                "/v/lib/python3.12/site-packages/numpy/_core/x.so",
                false,
                packages("/v/lib/python3.12/site-packages"),
            ),
            ("/usr/lib/python3/dist-packages/apt_pkg.so", false, packages("/usr/lib/python3/dist-packages")),
            ("/opt/nccl/libnccl.so.2", true, Some(Hint::Folder("/opt/nccl".into()))),
            ("/opt/nccl/libother.so.2", false, None),
            ("/libnccl.so.2", true, None),
            ("", true, None),
        ] {
            assert_eq!(Hint::of(path, is_library), hint, "{path}");
        }
    }

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn wheels_of_a_virtual_environment_are_foreseen() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join("lib/python3.12/site-packages/nvidia/nccl/lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libnccl.so.2.28"), "x").unwrap();
        std::os::unix::fs::symlink("libnccl.so.2.28", lib.join("libnccl.so.2")).unwrap();
        fs::write(lib.join("libother.so"), "x").unwrap();
        let wanted = |name: &str| name.starts_with("libnccl.so");
        let child = Command::new("sleep").arg("60").env("VIRTUAL_ENV", root.path()).spawn().unwrap();
        let child = Ended(child);
        // The kernel gives it its name before its environment.
        let is_started = || !fs::read(format!("/proc/{}/environ", child.0.id())).unwrap().is_empty();
        let is_started =
            || is_started() && fs::read(format!("/proc/{}/comm", child.0.id())).unwrap() == b"sleep\n";
        while !is_started() {
            std::thread::yield_now();
        }
        let found = foreseen(child.0.id(), &Hint::Interpreter, wanted);
        assert_eq!(found.len(), 1, "two names, one file: {found:?}");
        let packages = root.path().join("lib/python3.12/site-packages").display().to_string();
        assert_eq!(foreseen(child.0.id(), &Hint::Packages(packages), wanted).len(), 1);
        let folder = Hint::Folder(lib.display().to_string());
        assert_eq!(foreseen(child.0.id(), &folder, wanted)[0].file.id(), found[0].file.id());
        assert!(foreseen(u32::MAX, &folder, wanted).is_empty());
    }
}
