//! What every server of gpuwhy shares, whatever it serves: TLS, listening, secrets in files, dashboards' files and sessions, why
//! there is no answer in a sentence, and questions as an assistant's tools. It knows neither traces nor stores.

pub mod answer;
mod error;
pub mod fence;
mod listen;
mod mcp_sessions;
pub mod openapi;
pub mod page;
pub mod reply;
pub mod schemas;
mod secret;
mod shares;
pub mod text;
mod timed;
mod tls;
pub mod tool;
mod used;

pub use error::{AskError, HttpError, Kind};
pub use listen::{ListenOptions, Peer, Protocol, addresses, bind, until_asked_to_end};
pub use mcp_sessions::McpSessions;
pub use secret::{Digest, MIN_SECRET, lines_of, random};
pub use shares::{Share, Shares};
pub use timed::Timed;
pub use tls::Tls;
