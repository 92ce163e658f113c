//! Why a line is not taken.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    NotJson(String),
    TooLong,
    Labels(String),
    NoProcess(u32),
    NotTheirs(u32),
    TooManyLines,
    TooManyOpen,
    /// An end of what was not begun while the trace ran: nothing is wrong with that.
    NothingOpen,
}

impl Refusal {
    /// In a few words, the same for all lines of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Refusal::NotJson(_) => "not the JSON of a mark",
            Refusal::TooLong => "longer than 4096 bytes",
            Refusal::Labels(_) => "labels that do not fit",
            Refusal::NoProcess(_) => "about a process that does not exist",
            Refusal::NotTheirs(_) => "about another user's process",
            Refusal::TooManyLines => "too many a second",
            Refusal::TooManyOpen => "too many open at once",
            Refusal::NothingOpen => "an end of nothing that had begun",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotJson(why) => write!(
                out,
                "this is not the JSON of a mark ({why}); send a line such as {{\"do\":\"at\",\"labels\":{{\"step\":140}}}}"
            ),
            Refusal::TooLong => {
                write!(out, "a line has at most {} bytes; send fewer labels", crate::MAX_LINE_BYTES)
            }
            Refusal::Labels(why) => write!(out, "{why}"),
            Refusal::NoProcess(pid) => write!(out, "there is no process {pid}; `ps` lists those that run"),
            Refusal::NotTheirs(pid) => {
                write!(out, "process {pid} is of another user; mark your own, or ask as root")
            }
            Refusal::TooManyLines => {
                write!(out, "that is more than {} lines a second; send fewer", crate::budget::LINES_A_SECOND)
            }
            Refusal::TooManyOpen => write!(
                out,
                "more than {} marks of a process are open; end them, or send `at`",
                crate::spans::MAX_OPEN
            ),
            Refusal::NothingOpen => write!(out, "nothing of that name and value is open; begin it first"),
        }
    }
}
