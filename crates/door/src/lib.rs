//! What every server of gpuwhy shares, whatever it serves: TLS, listening, secrets in files, dashboards' files and sessions, why
//! there is no answer in a sentence, and questions as an assistant's tools. It knows neither traces nor stores.

pub mod answer;
mod error;
pub mod fence;
mod listen;
pub mod openapi;
pub mod page;
pub mod reply;
pub mod schemas;
mod secret;
pub mod text;
mod tls;
pub mod tool;

pub use error::{AskError, DoorError, Kind};
pub use listen::{Door, Peer, Protocol, addresses, bind, told_to_end};
pub use secret::{Digest, LEAST_SECRET, lines_of};
pub use tls::Tls;
