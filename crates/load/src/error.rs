//! Why a load could not be driven.

use thiserror::Error;

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "'{0}' is no address of a server; write http://HOST:PORT (load does not speak TLS: serve with --insecure-no-tls where nobody can listen)"
    )]
    Address(String),
    #[error("the fleet at {address} cannot be asked: {said}; is it running, and may the token read?")]
    Asking { address: String, said: String },
    #[error("nothing was taken of {pushes} pushes: {said}; is the address right, and may the token push?")]
    NothingTaken { pushes: u64, said: String },
    #[error("the threads for the load cannot be started: {0}")]
    Threads(#[from] std::io::Error),
}
