//! The generic loader: opens the probes' objects, shares their maps, attaches them by the best means the kernel
//! has, and reads what they send.

mod attach;
mod budget;
mod clock;
mod engine;
mod error;
mod features;
mod flights;
mod hazards;
mod kernel_types;
mod libraries;
mod loading;
mod loss;
mod object;
mod pythons;
mod ready;
mod rings;
mod rules;
mod settings;
mod site;
mod sites;
mod slots;
mod stats;
mod sums;
mod targets;
mod tracefs;
mod tracepoints;

pub use attach::{Flavour, LibraryFile};
pub use budget::{Budget, SliceSetting};
pub use clock::now_ns;
pub use engine::Engine;
pub use error::LoadError;
pub use features::{EmptyProbe, Features, TrapCost, trap_cost};
pub use hazards::{Hazard, hazards};
pub(crate) use rings::Inbox;
pub use settings::{Scope, Settings, StackMode, default_probes};
pub use sites::{Entry, Sites, build_id};
pub use stats::{ProgramClock, ProgramStats, programs_loaded};
