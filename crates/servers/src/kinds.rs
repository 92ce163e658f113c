//! The servers that are known: one file each, one line each in this table.

mod sglang;
mod tgi;
mod triton;
mod vllm;

use crate::kind::{Command, Kind};

pub static KINDS: &[Kind] = &[vllm::KIND, sglang::KIND, tgi::KIND, triton::KIND];

/// The kind whose command line this is.
pub(crate) fn of_command(command: &Command<'_>) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| (kind.is_command)(command))
}

/// The kind whose page this is, told by the names on it.
pub(crate) fn of_page(text: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| text.lines().any(|line| line.starts_with(kind.prefix)))
}

#[cfg(test)]
pub(crate) mod tests;
