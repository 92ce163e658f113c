//! One value of one signal of one rank.

use super::Signal;
use crate::Source;

/// As it comes with a push. Peers are lined up by when their values arrived, so clocks of nodes do not matter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    pub source: Source<'a>,
    pub signal: Signal,
    pub value: f64,
    /// When it arrived, by the fleet's clock.
    pub seen_ns: u64,
}
