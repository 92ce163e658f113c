//! Why a load could not be driven.

use thiserror::Error;

#[derive(Debug, Error)]
pub enum LoadError {
    #[error(
        "'{0}' is no address of a server; write https://HOST:PORT, or http://HOST:PORT where it serves without TLS"
    )]
    Address(String),
    #[error("nothing can be trusted: {0}; --ca names a PEM file of certificates")]
    Trust(String),
    #[error("the token has letters that no header can have; make one with `openssl rand -hex 32`")]
    Token,
    #[error(
        "the fleet at {address} cannot be asked: {message}; is it running, may the token read, and does it serve as the address says, https with TLS and http without?"
    )]
    Asking { address: String, message: String },
    #[error("nothing was taken of {pushes} pushes: {message}; is the address right, and may the token push?")]
    NothingTaken { pushes: u64, message: String },
    #[error("the threads for the load cannot be started: {0}")]
    Threads(#[from] std::io::Error),
}
