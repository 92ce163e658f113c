//! Who may ask: bearer tokens from a file or the environment, known by their digests only.

use gpuwhy_http::{Digest, HttpError, lines_of};
use std::path::Path;

/// Nothing at all where nobody has to show one.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<Digest>);

impl Tokens {
    /// From a file, one a line, `#` for comments, that others can neither read nor write, and from the value of an environment
    /// variable.
    pub fn read(file: Option<&Path>, variable: Option<&str>) -> Result<Tokens, HttpError> {
        let mut tokens = Tokens::default();
        for line in file.map(lines_of).transpose()?.unwrap_or_default() {
            tokens.0.push(Digest::new(&line)?);
        }
        if let Some(token) = variable.map(str::trim).filter(|token| !token.is_empty()) {
            tokens.0.push(Digest::new(token)?);
        }
        Ok(tokens)
    }

    /// Adds one nobody knows, and says it.
    pub(crate) fn make(&mut self) -> Result<String, HttpError> {
        let token = gpuwhy_http::random()
            .ok_or_else(|| HttpError::Failed("the system gives no random numbers; try again".into()))?;
        self.0.push(Digest::new(&token)?);
        Ok(token)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes as long whatever is shown: digests are compared, all of them, to their ends.
    pub(crate) fn fits(&self, shown: &str) -> bool {
        let shown = Digest::of(shown);
        self.0.iter().fold(false, |fits, token| fits | bool::from(token.fits(&shown)))
    }
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
    fn files_of_other_users_are_refused() {
        let theirs = file("0123456789abcdef", 0o600);
        if std::os::unix::fs::chown(theirs.path(), Some(65534), None).is_err() {
            let reason = "only root can give a file away";
            return gpuwhy_testkit::skip("files_of_other_users_are_refused", reason);
        }
        let message = Tokens::read(Some(theirs.path()), None).unwrap_err().to_string();
        assert!(message.contains("is another user's (65534)") && message.contains("chown root"), "{message}");
        std::os::unix::fs::chown(theirs.path(), Some(0), Some(65534)).unwrap();
        std::fs::set_permissions(theirs.path(), std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(!Tokens::read(Some(theirs.path()), None).unwrap().is_empty(), "a group may read");
    }

    #[test]
    fn files_others_can_read_and_short_or_missing_tokens_are_refused() {
        for mode in [0o644, 0o604, 0o602, 0o660] {
            let open = file("0123456789abcdef", mode);
            let message = Tokens::read(Some(open.path()), None).unwrap_err().to_string();
            assert!(message.contains("can be read or written by everybody"), "{message}");
        }
        let empty = file("# nothing\n", 0o600);
        assert!(Tokens::read(Some(empty.path()), None).unwrap_err().to_string().contains("no token in it"));
        assert!(Tokens::read(None, Some("short")).unwrap_err().to_string().contains("16 characters"));
        assert!(Tokens::read(Some(Path::new("/nonexistent")), None).is_err());
        assert!(Tokens::read(None, None).unwrap().is_empty());
    }
}
