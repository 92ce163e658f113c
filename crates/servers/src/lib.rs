//! Inference servers of this host: vLLM, SGLang, TGI and Triton. They are found by their command lines and the ports they
//! listen on, or named; asked over loopback or this host's own addresses for the page of metrics they publish; and what
//! two such pages say of the time between them is a sample. Nothing but that page is asked for, and nobody else.

mod address;
mod find;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod kind;
mod kinds;
mod meter;
mod page;
mod reading;

pub use address::{Target, target};
pub use kinds::KINDS;
pub use meter::{Heard, ServerMeter, Wanted};
