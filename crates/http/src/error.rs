//! Why a question has no answer, and why a server cannot start: a sentence each.

use serde::Serialize;
use std::path::PathBuf;

/// A question that was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct AskError {
    pub kind: Kind,
    pub sentence: String,
}

/// Whose fault it is, and so what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The question is wrong.
    Usage,
    /// There is nothing to answer from.
    Nothing,
    /// Answering it took too long.
    Slow,
    /// There are too many questions at once.
    Busy,
    /// It was taken back.
    Stopped,
    /// It may not be asked by this one, or in this way.
    Refused,
    Failed,
}

impl AskError {
    pub fn new(kind: Kind, sentence: impl Into<String>) -> AskError {
        AskError { kind, sentence: sentence.into() }
    }
}

/// Why a server does not begin.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("'{address}' is no address to listen on: {why}; write it as 127.0.0.1:7777")]
    Address { address: String, why: String },
    #[error("cannot listen on {address}: {why}; name another port, or 0 for any that is free")]
    Listen { address: String, why: String },
    #[error("the token file {path} can be read or written by everybody; run `chmod o=,g-w {path}`")]
    TokenIsOpen { path: PathBuf },
    #[error(
        "the token file {path} is another user's ({uid}), who can change it; run `chown root {path}`, or use one of yours"
    )]
    TokenIsForeign { path: PathBuf, uid: u32 },
    #[error("the token file {path} cannot be used: {why}")]
    TokenFile { path: PathBuf, why: String },
    #[error("a token has less than 16 characters; make a better one: `openssl rand -hex 32`")]
    TokenIsShort,
    #[error("the {what} {path} cannot be used: {why}; it must be a PEM file")]
    Certificate { what: &'static str, path: PathBuf, why: String },
    #[error("the server failed: {0}")]
    Failed(String),
}
