//! Library files as earlier traces found them, kept in a file of the agent's own: where they are, so that they can be
//! attached before anybody maps them, and where their functions begin, so that their tables need not be read again.
//! Nothing of it is believed that the library's own bytes do not say.

use gpuwhy_probes::{Entry, Library, LibraryFile, Sites};
use gpuwhy_proc::{FileId, TargetFile};
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Files remembered: those used last.
const MAX_FILES: usize = 64;
/// The file of the driver's 300 functions takes 40 KB.
const MAX_BYTES: u64 = 4 << 20;
/// More than any library has that is probed.
const MAX_FUNCTIONS: usize = 2048;
const MAX_TEXT: usize = 4096;
/// Another version's file is not read.
const VERSION: u64 = 1;

/// A file as it was: another one at its path, or a change of it, shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    file: FileId,
    size: u64,
    modified: [i64; 2],
    changed: [i64; 2],
}

impl Identity {
    fn of(file: &TargetFile) -> Option<Identity> {
        let metadata = file.file().metadata().ok()?;
        Some(Identity {
            file: file.id(),
            size: metadata.size(),
            modified: [metadata.mtime(), metadata.mtime_nsec()],
            changed: [metadata.ctime(), metadata.ctime_nsec()],
        })
    }
}

#[derive(Debug, Clone)]
struct KnownFile {
    library: Library,
    /// On this host; nothing for files that are in a container.
    path: Option<String>,
    identity: Identity,
    build_id: Vec<u8>,
    sites: Arc<Sites>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Those used last first.
    files: Vec<KnownFile>,
    is_changed: bool,
}

impl Known {
    /// What the file says; nothing where it is not to be trusted, or is not there.
    pub(crate) fn read(path: &Path) -> Known {
        let files = trusted_text(path).and_then(|text| parse(&text)).unwrap_or_default();
        Known { files, is_changed: false }
    }

    /// The libraries among them.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = Library> + '_ {
        self.files.iter().filter(|file| file.path.is_some()).map(|file| file.library)
    }

    /// Those that are still where and what they were.
    pub(crate) fn present(&self) -> Vec<LibraryFile> {
        let opened = self.files.iter().filter_map(|known| {
            let path = known.path.as_ref()?;
            let file = TargetFile::at(Path::new(path))?;
            (Identity::of(&file)? == known.identity).then(|| LibraryFile {
                library: known.library,
                file,
                shown_path: path.clone(),
                pid: None,
                sites: None,
            })
        });
        opened.collect()
    }

    /// What a build of a library was seen to have. A file without any of the functions has no bytes that could be compared,
    /// so it has to be the same file.
    pub(crate) fn sites(&self, library: Library, build_id: &[u8], file: &TargetFile) -> Option<Arc<Sites>> {
        let identity = Identity::of(file)?;
        let fits = |known: &&KnownFile| {
            known.library == library
                && known.build_id == build_id
                && known.identity.size == identity.size
                && (!known.sites.entries.is_empty() || known.identity == identity)
        };
        self.files.iter().find(fits).map(|known| Arc::clone(&known.sites))
    }

    /// A file was read.
    pub(crate) fn learn(
        &mut self,
        library: Library,
        build_id: Vec<u8>,
        file: &TargetFile,
        sites: Arc<Sites>,
    ) {
        let Some(identity) = Identity::of(file) else { return };
        let is_same = |known: &KnownFile| known.identity == identity && known.sites == sites;
        if self.files.iter().any(is_same) {
            return;
        }
        self.files.retain(|known| known.identity.file != identity.file);
        self.files.insert(0, KnownFile { library, path: None, identity, build_id, sites });
        self.files.truncate(MAX_FILES);
        self.is_changed = true;
    }

    /// A file was attached because a process maps it, or is about to: the next trace looks for it there.
    pub(crate) fn used(&mut self, file: &LibraryFile) {
        let id = file.file.id();
        let Some(at) = self.files.iter().position(|known| known.identity.file == id) else { return };
        let is_there = TargetFile::at(Path::new(&file.shown_path)).is_some_and(|there| there.id() == id);
        let path = (is_there && file.shown_path.len() <= MAX_TEXT).then(|| file.shown_path.clone());
        let mut known = self.files.remove(at);
        self.is_changed |= known.path != path;
        known.path = path;
        self.files.insert(0, known);
    }

    /// Writes what has changed; a failure costs the next trace its knowledge and nothing else.
    pub(crate) fn save(&mut self, path: &Path) {
        if std::mem::take(&mut self.is_changed) {
            let _ = write(path, &self.text());
        }
    }

    fn text(&self) -> String {
        let files: Vec<Value> = self.files.iter().map(to_json).collect();
        json!({ "version": VERSION, "libraries": files }).to_string()
    }
}

/// Whether only this user can have written it.
fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

fn trusted_text(path: &Path) -> Option<String> {
    const O_NOFOLLOW: i32 = 0o400_000;
    const O_NONBLOCK: i32 = 0o4_000;
    let folder = fs::symlink_metadata(path.parent()?).ok()?;
    (folder.is_dir() && is_own(&folder)).then_some(())?;
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && is_own(&metadata) && metadata.len() <= MAX_BYTES).then_some(())?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// In place of the old one, all at once.
fn write(path: &Path, text: &str) -> Option<()> {
    let folder = path.parent()?;
    if !folder.exists() {
        DirBuilder::new().mode(0o755).create(folder).ok()?;
    }
    let metadata = fs::symlink_metadata(folder).ok()?;
    (metadata.is_dir() && is_own(&metadata) && text.len() as u64 <= MAX_BYTES).then_some(())?;
    let fresh = folder.join(format!(".libraries.{}", std::process::id()));
    let written = || {
        // What an agent of the same number left behind.
        let _ = fs::remove_file(&fresh);
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        fs::rename(&fresh, path).ok()
    };
    written().or_else(|| {
        let _ = fs::remove_file(&fresh);
        None
    })
}

fn to_json(known: &KnownFile) -> Value {
    let identity = &known.identity;
    let functions: Vec<Value> = known
        .sites
        .entries
        .iter()
        .map(|entry| json!([entry.symbol, entry.offset, entry.site, entry.emulated, hex(&entry.code)]))
        .collect();
    json!({
        "library": known.library.name(), "path": known.path, "build_id": hex(&known.build_id),
        "device": identity.file.device, "inode": identity.file.inode, "size": identity.size,
        "modified": identity.modified, "changed": identity.changed, "functions": functions,
    })
}

fn parse(text: &str) -> Option<Vec<KnownFile>> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value["version"] == VERSION).then_some(())?;
    Some(value["libraries"].as_array()?.iter().take(MAX_FILES).filter_map(from_json).collect())
}

fn from_json(value: &Value) -> Option<KnownFile> {
    let number = |name: &str| value[name].as_u64();
    let pair = |name: &str| Some([value[name][0].as_i64()?, value[name][1].as_i64()?]);
    let text = |value: &Value| value.as_str().filter(|text| text.len() <= MAX_TEXT).map(str::to_string);
    let name = text(&value["library"])?;
    let entry = |value: &Value| {
        Some(Entry {
            symbol: text(&value[0])?,
            offset: value[1].as_u64()?,
            site: value[2].as_u64()?,
            emulated: value[3].as_bool()?,
            code: bytes(value[4].as_str()?)?,
        })
    };
    let functions = value["functions"].as_array().filter(|functions| functions.len() <= MAX_FUNCTIONS)?;
    Some(KnownFile {
        library: Library::ALL.into_iter().find(|library| library.name() == name)?,
        path: text(&value["path"]).filter(|path| path.starts_with('/')),
        identity: Identity {
            file: FileId { device: number("device")?, inode: number("inode")? },
            size: number("size")?,
            modified: pair("modified")?,
            changed: pair("changed")?,
        },
        build_id: bytes(value["build_id"].as_str()?).filter(|id| !id.is_empty())?,
        sites: Arc::new(Sites { entries: functions.iter().map(entry).collect::<Option<Vec<_>>>()? }),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    (digits.len().is_multiple_of(2) && digits.len() <= MAX_TEXT).then_some(())?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn library(folder: &Path) -> LibraryFile {
        let path = folder.join("libnccl.so.2");
        fs::write(&path, [0x55; 64]).unwrap();
        LibraryFile {
            library: Library::Nccl,
            file: TargetFile::at(&path).unwrap(),
            shown_path: path.display().to_string(),
            pid: Some(1),
            sites: None,
        }
    }

    fn entry(code: u8) -> Arc<Sites> {
        let symbol = "ncclAllReduce".to_string();
        let entry = Entry { symbol, offset: 0, code: vec![code; 32], site: 0, emulated: true };
        Arc::new(Sites { entries: vec![entry] })
    }

    fn saved(folder: &Path) -> (LibraryFile, std::path::PathBuf) {
        let (file, path) = (library(folder), folder.join("state/libraries.json"));
        let mut known = Known::default();
        known.learn(file.library, vec![1, 2], &file.file, entry(0x55));
        known.used(&file);
        known.save(&path);
        (file, path)
    }

    #[test]
    fn what_was_learnt_is_known_the_next_time_as_long_as_the_file_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (file, path) = saved(folder.path());
        let known = Known::read(&path);
        let present = known.present();
        assert_eq!((present.len(), present[0].file.id()), (1, file.file.id()));
        let sites = known.sites(Library::Nccl, &[1, 2], &file.file).unwrap();
        assert!(sites.fit(&file.file));
        assert!(known.sites(Library::Nccl, &[1, 3], &file.file).is_none(), "another build");
        assert!(known.sites(Library::Hip, &[1, 2], &file.file).is_none(), "another library");
        // Another file at the same path, of the same size.
        fs::remove_file(&file.shown_path).unwrap();
        fs::write(&file.shown_path, [0x90; 64]).unwrap();
        assert!(known.present().is_empty());
        let other = TargetFile::at(Path::new(&file.shown_path)).unwrap();
        let sites = known.sites(Library::Nccl, &[1, 2], &other).unwrap();
        assert!(!sites.fit(&other), "its bytes are others");
    }

    #[test]
    fn a_file_that_others_can_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (_, path) = saved(folder.path());
        let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let is_read = || !Known::read(&path).present().is_empty();
        assert!(is_read());
        chmod(&path, 0o666);
        assert!(!is_read());
        chmod(&path, 0o600);
        chmod(path.parent().unwrap(), 0o777);
        assert!(!is_read());
        chmod(path.parent().unwrap(), 0o755);
        let moved = folder.path().join("elsewhere");
        fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(!is_read(), "a link leads elsewhere");
    }

    #[test]
    fn damaged_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let (_, path) = saved(folder.path());
        let text = fs::read_to_string(&path).unwrap();
        for damaged in [
            String::new(),
            text[..text.len() / 2].to_string(),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("libnccl\"", "libother\""),
            text.replace("5555", "55zz"),
            text.replace("[\"ncclAllReduce\",0", "[\"ncclAllReduce\",-1"),
        ] {
            fs::write(&path, &damaged).unwrap();
            assert!(Known::read(&path).present().is_empty(), "{damaged}");
        }
        assert!(Known::read(&folder.path().join("absent/x")).present().is_empty());
    }

    #[test]
    fn an_empty_answer_counts_for_the_same_file_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = library(folder.path());
        let mut known = Known::default();
        known.learn(Library::Nccl, vec![1], &file.file, Arc::default());
        assert!(known.sites(Library::Nccl, &[1], &file.file).is_some());
        let copy = folder.path().join("copy");
        fs::copy(&file.shown_path, &copy).unwrap();
        assert!(known.sites(Library::Nccl, &[1], &TargetFile::at(&copy).unwrap()).is_none());
    }
}
