//! From calls and waits to causes. Everything here takes values and gives values.

pub mod activity;
mod attribution;
mod blame;
mod case;
mod compare;
mod draft;
pub mod evidence;
mod explain;
mod fixes;
mod idle;
mod op_ledger;
mod path;
mod ranks;
mod rules;
mod servers;
mod severity;
mod slow;
mod steps;
mod tail;
mod tally;
mod twins;
mod when;

pub use activity::Activity;
pub use blame::blame_rows;
pub use compare::{Comparison, GpuChange, OpChange, OpSide, compare};
pub use evidence::Evidence;
pub use explain::{Explanation, explain};
pub use idle::Idle;
pub use path::{PathPart, Requests, Stall, StepNoise, StepTree, loops};
pub use rules::{RETRANSMIT_TIMER_NS, RULES, Rule, lost_to_retransmits};
pub use servers::{Coincidence, LatencyReport, ServerReport, Worst};
pub use slow::slow_limit_ns;
pub use tail::{Tail, TailShare, shares_by_cause};
pub use tally::{Tallies, Tally};
