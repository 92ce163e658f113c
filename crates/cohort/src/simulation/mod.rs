//! Jobs whose faults are known: what the comparison is measured by. Ranks work, meet at collectives and wait for the last one,
//! as real ones do; so a step takes all of them equally long, and only their own time tells who is slow. Deterministic from
//! a seed; nothing here is used to judge real jobs.

mod agents;
mod machine;
mod plan;
mod random;
mod trial;

pub use agents::{Agents, Push};
pub use machine::{Call, Machine};
pub use plan::{ClockStep, Fault, FaultKind, Layout, Noise, Plan};
pub use random::Random;
pub use trial::{Outcome, trial};
