//! Who may ask: bearer tokens from a file or the environment, known by their digests only.

use crate::ServeError;
use ring::digest::{SHA256, digest};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Shorter tokens can be guessed.
const LEAST: usize = 16;
/// A file of tokens is no longer than this.
const LARGEST: u64 = 1 << 20;

/// Nothing at all where nobody has to show one.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<Vec<u8>>);

impl Tokens {
    /// From a file, one a line, `#` for comments, that others can neither read nor write, and from the value of an environment
    /// variable.
    pub fn read(file: Option<&Path>, variable: Option<&str>) -> Result<Tokens, ServeError> {
        let mut tokens = Tokens::default();
        if let Some(path) = file {
            for line in token_lines(path)? {
                tokens.add(&line)?;
            }
        }
        if let Some(token) = variable.map(str::trim).filter(|token| !token.is_empty()) {
            tokens.add(token)?;
        }
        Ok(tokens)
    }

    fn add(&mut self, token: &str) -> Result<(), ServeError> {
        if token.chars().count() < LEAST {
            return Err(ServeError::TokenIsShort);
        }
        self.0.push(digest(&SHA256, token.as_bytes()).as_ref().to_vec());
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes as long whatever is shown: digests are compared, all of them, to their ends.
    pub(crate) fn fits(&self, shown: &str) -> bool {
        let shown = digest(&SHA256, shown.as_bytes());
        self.0.iter().fold(subtle::Choice::from(0), |fits, token| fits | token.ct_eq(shown.as_ref())).into()
    }
}

/// The lines of a file that others can neither read nor write, without comments; at least one.
pub fn token_lines(path: &Path) -> Result<Vec<String>, ServeError> {
    let text = contents(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<String> = lines.map(ToString::to_string).collect();
    match lines.is_empty() {
        false => Ok(lines),
        true => Err(ServeError::TokenFile {
            path: path.into(),
            why: "there is no token in it; write one a line".into(),
        }),
    }
}

fn contents(path: &Path) -> Result<String, ServeError> {
    let unusable = |why: String| ServeError::TokenFile { path: path.into(), why };
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let about = file.metadata().map_err(|error| unusable(error.to_string()))?;
    if !about.is_file() {
        return Err(unusable("it is no file".into()));
    }
    if about.mode() & 0o007 != 0 {
        return Err(ServeError::TokenIsOpen { path: path.into() });
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| unusable(error.to_string()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn tokens_of_file_and_environment_fit_and_nothing_else_does() {
        let file = file("# ours\n0123456789abcdef\n\n  fedcba9876543210  \n", 0o600);
        let tokens = Tokens::read(Some(file.path()), Some("from-the-environment")).unwrap();
        for token in ["0123456789abcdef", "fedcba9876543210", "from-the-environment"] {
            assert!(tokens.fits(token), "{token}");
        }
        for other in ["", "0123456789abcde", "0123456789abcdef0", "# ours", "0123456789ABCDEF"] {
            assert!(!tokens.fits(other), "{other}");
        }
        assert!(!Tokens::default().fits(""));
    }

    #[test]
    fn files_others_can_read_and_short_or_missing_tokens_are_refused() {
        for mode in [0o644, 0o604, 0o602] {
            let open = file("0123456789abcdef", mode);
            let said = Tokens::read(Some(open.path()), None).unwrap_err().to_string();
            assert!(said.contains("can be read or written by everybody"), "{said}");
        }
        let empty = file("# nothing\n", 0o600);
        assert!(Tokens::read(Some(empty.path()), None).unwrap_err().to_string().contains("no token in it"));
        assert!(Tokens::read(None, Some("short")).unwrap_err().to_string().contains("16 characters"));
        assert!(Tokens::read(Some(Path::new("/nonexistent")), None).is_err());
        assert!(Tokens::read(None, None).unwrap().is_empty());
    }
}
