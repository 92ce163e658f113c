//! JSON written value by value: for files that are too large to be built first.

use std::io::{self, Write};

/// A string with its quotes.
pub(crate) fn string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

/// What separates the members of a list: nothing before the first.
#[derive(Debug, Default)]
pub(crate) struct Commas {
    begun: bool,
}

impl Commas {
    pub(crate) fn next(&mut self, out: &mut dyn Write, separator: &str) -> io::Result<()> {
        if self.begun {
            out.write_all(separator.as_bytes())?;
        }
        self.begun = true;
        Ok(())
    }
}
