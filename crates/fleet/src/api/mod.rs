//! Asking: one registry of tools for HTTP and MCP, behind token, audit and rate limit, in that order; and the dashboard, which asks
//! the same.

mod analyses;
mod asking;
pub(crate) mod audit;
mod guard;
mod http;
mod mcp;
mod openapi;
mod page;
mod rate;
mod refusals;
mod request;
mod tools;
mod uses;

pub use analyses::{ANALYSES, Analysis};
pub(crate) use asking::Asking;
pub(crate) use http::router;
pub use openapi::openapi;
pub use tools::{TOOLS, Tool};

use crate::tokens::{Grant, Tokens};
use asking::Work;
use audit::Audit;
use gpuwhy_http::page::{Cookie, Sessions};
use rate::Rates;
use std::sync::Arc;

/// Who asks: put into each request that the guard lets through.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Option<Arc<Grant>>);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Site {
    asking: Asking,
    tokens: Tokens,
    audit: Arc<Audit>,
    /// Of tokens, of which there are so many.
    rates: Rates,
    /// Of addresses that show none: however many there are, no token waits for them.
    strangers: Rates,
    /// Of browsers.
    sessions: Sessions<Arc<Grant>>,
    cookie: Cookie,
}

impl Site {
    /// `secure`: over TLS.
    pub(crate) fn new(asking: Asking, tokens: Tokens, audit: Arc<Audit>, secure: bool) -> Site {
        let cookie = Cookie { name: "gpuwhy-fleet", secure };
        let (rates, strangers) = (Rates::default(), Rates::default());
        Site { asking, tokens, audit, rates, strangers, sessions: Sessions::default(), cookie }
    }
}
