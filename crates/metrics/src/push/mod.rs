//! OTLP to a server, in a thread of its own: a bounded queue, retries as the OTLP specification has them, and a count of
//! everything that was given up. Whoever puts something in never waits.

mod advice;
mod delivery;
mod grpc;
mod http;
mod line;
mod pusher;
mod queue;
mod retry;
mod spool;
mod target;

pub use delivery::{Delivery, DeliveryNow, GivenUp};
pub use pusher::Pusher;
pub use spool::SpoolError;
pub use target::{Protocol, Target, TargetError};
