//! From calls and waits to causes. Everything here takes values and gives values.

mod blame;
mod slow;
mod stall;
mod tally;

pub use blame::blame_rows;
pub use slow::slow_limit_ns;
pub use stall::{By, CauseShare, Stall, stalls};
pub use tally::{Tallies, Tally};
