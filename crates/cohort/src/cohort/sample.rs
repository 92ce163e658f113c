//! What comes with a push: one value of one signal of one rank, and where it was met.

use super::Signal;
use crate::Source;
use gpuwhy_model::Cause;

/// As it comes with a push. Peers are lined up by when their values arrived, so clocks of nodes do not matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    pub source: Source<'a>,
    pub signal: Signal,
    pub value: f64,
    /// When it arrived, by the fleet's clock.
    pub seen_ns: u64,
}

/// A line of code that a rank was met at between its calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place<'a> {
    /// What its thread did there, or waited for.
    pub class: Cause,
    pub line: &'a str,
    /// Of its time since it last told.
    pub share: f64,
}
