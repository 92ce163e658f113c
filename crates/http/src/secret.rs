//! Secrets: read from files that others can neither read nor write, and known by their digests only.

use crate::HttpError;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use subtle::ConstantTimeEq;

/// Shorter secrets can be guessed.
pub const MIN_SECRET: usize = 16;
/// A file of secrets is no longer than this.
const LARGEST: u64 = 1 << 20;

/// Of a secret, instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(Vec<u8>);

impl Digest {
    /// Of one that is long enough.
    pub fn new(secret: &str) -> Result<Digest, HttpError> {
        if secret.chars().count() < MIN_SECRET {
            Err(HttpError::TokenIsShort)
        } else {
            Ok(Digest::of(secret))
        }
    }

    /// Of whatever was shown.
    pub fn of(shown: &str) -> Digest {
        Digest(digest(&SHA256, shown.as_bytes()).as_ref().to_vec())
    }

    /// Takes as long whatever is compared.
    pub fn fits(&self, shown: &Digest) -> subtle::Choice {
        self.0.ct_eq(&shown.0)
    }

    /// Enough of it to tell secrets apart in a log, and too little to find one by.
    pub fn short(&self) -> String {
        self.0.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// 32 bytes that nobody can guess, as hex digits; nothing where the system gives none.
pub fn random() -> Option<String> {
    let mut number = [0u8; 32];
    SystemRandom::new().fill(&mut number).ok()?;
    Some(number.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// A file's lines that are neither empty nor comments.
pub fn lines_of(path: &Path) -> Result<Vec<String>, HttpError> {
    let text = contents(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<String> = lines.map(String::from).collect();
    if lines.is_empty() {
        let why = "there is no token in it; write one a line".into();
        return Err(HttpError::TokenFile { path: path.into(), why });
    }
    Ok(lines)
}

fn contents(path: &Path) -> Result<String, HttpError> {
    let unusable = |why: String| HttpError::TokenFile { path: path.into(), why };
    let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
    let about = file.metadata().map_err(|error| unusable(error.to_string()))?;
    if !about.is_file() {
        return Err(unusable("it is no file".into()));
    }
    // A group may read it, as that of a service.
    if about.mode() & 0o027 != 0 {
        return Err(HttpError::TokenIsOpen { path: path.into() });
    }
    // Its owner may change it at any time.
    if ![0, rustix::process::geteuid().as_raw()].contains(&about.uid()) {
        return Err(HttpError::TokenIsForeign { path: path.into(), uid: about.uid() });
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(|error| unusable(error.to_string()))?;
    Ok(text)
}
