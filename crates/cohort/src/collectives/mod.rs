//! Collectives across ranks: who came last, who waited, what the clocks of nodes differ by, and who is missing.

mod autopsy;
mod clocks;
mod communicator;
mod hang;
mod holders;
mod joiner;
mod record;
mod report;
mod roles;
mod round;
mod seat;
mod seating;

pub use autopsy::{Autopsy, HangKind, Suspect, Waiter};
pub use clocks::Clock;
pub use joiner::Joiner;
pub(crate) use joiner::{Anchor, STRETCH_NS, Wait};
pub use record::{Record, Stuck};
pub use report::{CommunicatorReport, RankLateness, RoundReport};
