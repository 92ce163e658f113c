//! What dashboards share: their files, which are in the binary, the page where a token is shown, sessions of browsers, and what
//! keeps other sites' pages out.

mod assets;
mod origin;
mod session;

pub use assets::Page;
pub use origin::{is_from_elsewhere, is_same_origin, protect};
pub use session::{Cookie, Sessions};
