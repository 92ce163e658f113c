//! What a timeline is made of, and who writes it.

use crate::ExportError;
use std::borrow::Cow;

/// A line of the picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Track {
    /// Unique in the export, from 1 on.
    pub(crate) id: u64,
    /// The one it is shown under.
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    /// The process it is of.
    pub(crate) pid: Option<u32>,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Process {
        cmdline: String,
    },
    /// The thread's number.
    Thread(u32),
    /// Of slices of something else, or of nothing but others below it.
    Plain,
    Counter {
        unit: &'static str,
    },
}

/// Something with a beginning and an end, or an instant.
#[derive(Debug)]
pub(crate) struct Slice<'a> {
    pub(crate) track: u64,
    pub(crate) start_ns: u64,
    /// Nothing for an instant.
    pub(crate) end_ns: Option<u64>,
    pub(crate) name: &'a str,
    pub(crate) category: &'a str,
    pub(crate) args: &'a [(&'a str, Arg<'a>)],
    /// An arrow begins here.
    pub(crate) flow_out: Option<u64>,
    /// An arrow ends here.
    pub(crate) flow_in: Option<u64>,
    pub(crate) stack_id: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arg<'a> {
    Integer(i64),
    Real(f64),
    /// A handle or an address.
    Hex(u64),
    Text(Cow<'a, str>),
}

/// Writes a timeline in some format. On one track, slices come in order of their start and lie within each other or
/// apart; a track comes before what is on it.
pub(crate) trait Sink {
    fn track(&mut self, track: &Track) -> Result<(), ExportError>;
    fn slice(&mut self, slice: &Slice<'_>) -> Result<(), ExportError>;
    fn counter(&mut self, track: &Track, time_ns: u64, value: f64) -> Result<(), ExportError>;
}
