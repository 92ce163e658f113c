//! Asks other nodes' dashboards for their traces: only those that were named, over TLS with a token. Each node's clock is
//! compared with ours, and one that fails is told and left out.

mod client;
mod clock;
mod gather;
mod node;
mod tokens;
mod trouble;

pub use gpuwhy_connect::check as check_certificates;

pub use gather::{Ask, Fetched, Part, Progress, gather};
pub use node::{Node, NodeError};
pub use tokens::Tokens;
pub use trouble::Trouble;
