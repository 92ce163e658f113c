//! The environment a process was started with. What it sets itself later is not there.

use crate::Root;
use crate::root::word;
use gpuwhy_proc::look;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

/// The most that is read; a longer environment is read in part.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(HashMap<String, String>);

impl Environment {
    pub(crate) fn of(root: &Root, pid: u32) -> Environment {
        let path = root.path(&format!("proc/{pid}/environ"));
        let read = move || {
            let mut bytes = Vec::new();
            if let Ok(file) = File::open(path) {
                // One that cannot be read to its end is known as far as it was.
                let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
            }
            bytes
        };
        let bytes = look(pid, read).unwrap_or_default();
        root.reader().read(move || Environment::parse(&bytes)).unwrap_or_default()
    }

    /// The first of two variables of one name is the one `getenv` finds.
    pub(crate) fn parse(bytes: &[u8]) -> Environment {
        let mut variables = HashMap::new();
        for entry in bytes.split(|byte| *byte == 0) {
            if let Some((name, value)) =
                std::str::from_utf8(entry).ok().and_then(|entry| entry.split_once('='))
            {
                variables.entry(name.to_string()).or_insert_with(|| value.to_string());
            }
        }
        Environment(variables)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of the first of these that has one, made tame.
    pub(crate) fn word(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| word(self.get(name)?))
    }

    pub(crate) fn number(&self, names: &[&str]) -> Option<i32> {
        names.iter().find_map(|name| self.get(name)?.trim().parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_and_garbage_is_not() {
        let found = Environment::parse(b"A=1\0B=\0C=x=y\0A=2\0\xff=3\0nothing\0D=a\x1bb\0");
        assert_eq!((found.get("A"), found.get("B"), found.get("C")), (Some("1"), None, Some("x=y")));
        assert_eq!(found.word(&["B", "D"]).as_deref(), Some("ab"));
        assert_eq!((found.number(&["C", "A"]), found.number(&["D"])), (Some(1), None));
        assert_eq!(Environment::parse(b"").get("A"), None);
    }
}
