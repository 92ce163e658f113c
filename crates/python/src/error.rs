//! Why an interpreter could not be read.

use crate::Version;

#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("process {pid} cannot be read ({why}): run as root or as its owner")]
    Unreadable { pid: u32, why: std::io::Error },
    #[error("{file} is a Python, but its file cannot be read ({why})")]
    File { file: String, why: String },
    #[error(
        "{file} is a Python without the symbol _PyRuntime and without a section .PyRuntime: it was stripped"
    )]
    NoRuntime { file: String },
    #[error("{file} does not say which Python it is")]
    NoVersion { file: String },
    #[error("Python {version} of {file} is not known: 3.9 to 3.14 are")]
    Unknown { version: Version, file: String },
    #[error("Python {version} of {file} does not describe itself as expected ({why})")]
    Strange { version: Version, file: String, why: &'static str },
    #[error("the interpreter has not started, or is gone")]
    NotRunning,
    #[error("no Python thread has the id {native}")]
    NoThread { native: u32 },
}
