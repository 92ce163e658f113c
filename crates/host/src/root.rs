//! Files that are read without trusting who wrote them: never more than so much, never out of the root they are below.

use gpuwhy_confine::Parser;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The most that is read of any file.
const MAX_BYTES: u64 = 1 << 20;
/// The longest name kept of what others may write as they like.
const MAX_WORD_BYTES: usize = 512;

/// The host's files: those below `/`, or below a folder that stands for it in tests.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
    reader: Reader,
}

impl Default for Root {
    fn default() -> Root {
        Root::at(Path::new("/"))
    }
}

impl Root {
    pub fn at(folder: &Path) -> Root {
        Root { folder: folder.into(), reader: Reader::default() }
    }

    /// The same, where what strangers wrote is read in a confined thread. It has to be one that may talk.
    pub(crate) fn reading_in(self, parser: Parser) -> Root {
        Root { reader: Reader { parser: Some(Rc::new(parser)) }, ..self }
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// For files of the kernel, whose way nobody can bend.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        bounded(File::open(self.path(path)).ok()?)
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn of_process(&self, pid: u32, name: &str) -> Option<String> {
        self.text(&format!("proc/{pid}/{name}"))
    }

    /// What a process sees as `/`, whatever container it is in.
    pub(crate) fn inside(&self, pid: u32) -> Option<Inside> {
        let files = gpuwhy_proc::Inside::of_process_below(&self.folder, pid)?;
        let shown = self.path(&format!("proc/{pid}/root"));
        Some(Inside { files, shown, reader: self.reader.clone() })
    }

    /// The host as seen from here, and as its first process sees it: the agent may be in a container itself.
    pub(crate) fn hosts(&self) -> Vec<Inside> {
        let own = gpuwhy_proc::Inside::of(&self.folder);
        let own = own.map(|files| Inside { files, shown: self.folder.clone(), reader: self.reader.clone() });
        let first =
            self.inside(1).filter(|first| own.as_ref().is_none_or(|own| !own.files.is_same(&first.files)));
        own.into_iter().chain(first).collect()
    }
}

/// Where strangers' words are read: in a confined thread, or right here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reader {
    parser: Option<Rc<Parser>>,
}

impl Reader {
    /// Nothing where reading panicked.
    pub(crate) fn read<T: Send + 'static>(&self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match &self.parser {
            Some(parser) => parser.parse(read),
            None => Some(read()),
        }
    }

    pub(crate) fn json(&self, text: String) -> Option<serde_json::Value> {
        self.read(move || serde_json::from_str(&text).ok())?
    }
}

/// The files of the host, or of a process, as it sees them itself.
#[derive(Debug)]
pub(crate) struct Inside {
    files: gpuwhy_proc::Inside,
    shown: PathBuf,
    reader: Reader,
}

impl Inside {
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Where it lies, for what is not a file.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        bounded(self.files.open(path)?).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn json(&self, path: &str) -> Option<serde_json::Value> {
        self.reader.json(self.text(path)?)
    }

    /// The one word a file holds.
    pub(crate) fn word(&self, path: &str) -> Option<String> {
        word(&self.text(path)?)
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.files.names(path)
    }
}

/// What a file holds, if that is not too much: half a file would be read wrongly.
fn bounded(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
}

/// A name that somebody else chose: one line, without what a terminal would act on, not too long. Nothing if nothing
/// is left.
pub(crate) fn word(text: &str) -> Option<String> {
    let line = text.trim_matches(['\0', '\n', '\r', ' ', '\t']).lines().next()?;
    let word: String = line.chars().filter(|c| !c.is_control()).take(MAX_WORD_BYTES).collect();
    let word = word.trim();
    (!word.is_empty()).then(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("large"), vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
        fs::write(folder.path().join("odd"), b"a\x1b[31m\0b\xff\nsecond").unwrap();
        let inside = Root::at(folder.path()).hosts().remove(0);
        assert_eq!((inside.text("large"), inside.text("absent")), (None, None));
        assert_eq!(inside.word("odd").as_deref(), Some("a[31mb\u{fffd}"));
    }

    #[test]
    fn words_are_tame() {
        assert_eq!(word("  a b \n c"), Some("a b".into()));
        assert_eq!(word("\0\n "), None);
        assert_eq!(word(&"x".repeat(10_000)).unwrap().len(), MAX_WORD_BYTES);
    }
}
