//! What was seen, by topic: one file a panel. The live screen, the end of a trace and the demo show the same panels.

mod busy;
mod coldstart;
mod collectives;
mod copies;
mod cost;
mod driver;
mod fabric;
mod gpus;
mod graphs;
mod kernels;
mod lines;
mod marks;
mod memory;
mod operations;
mod panel;
mod servers;
mod steps;
mod trouble;
mod view;
mod why;
mod words;
mod xid;

pub(crate) use operations::LEGEND;
pub(crate) use panel::{Panel, Rest};
pub(crate) use view::View;
pub(crate) use words::counted;

/// A topic's panel, where there is anything to show.
pub(crate) type Topic = fn(&View<'_>) -> Option<Panel>;

/// What the live screen shows together.
pub(crate) struct Page {
    pub(crate) name: &'static str,
    pub(crate) topics: &'static [Topic],
}

/// Shown on every page.
pub(crate) const TROUBLE: Topic = trouble::panel;

pub(crate) static PAGES: &[Page] = &[
    Page { name: "answer", topics: &[why::panel, steps::panel, gpus::panel, operations::panel] },
    Page { name: "code", topics: &[lines::panel, servers::panel, marks::panel, cost::panel] },
    Page { name: "GPU work", topics: &[busy::panel, graphs::panel, kernels::panel, memory::panel] },
    Page {
        name: "transfers",
        topics: &[collectives::panel, copies::panel, driver::panel, coldstart::panel, fabric::panel],
    },
];

/// The end of a trace: first what was called, then the rest in the order in which it is asked for.
pub(crate) const OPERATIONS: Topic = operations::panel;
pub(crate) static REST: &[Topic] = &[
    lines::panel,
    marks::panel,
    servers::panel,
    busy::panel,
    collectives::panel,
    graphs::panel,
    kernels::panel,
    memory::panel,
    copies::panel,
    driver::panel,
    coldstart::panel,
    fabric::panel,
    gpus::panel,
    trouble::panel,
    cost::panel,
];

#[cfg(test)]
mod tests;
