//! What the rows of one push take, charged to its sender before they are made.

use super::budget::{Full, Taken};
use super::wire::Malformed;
use std::sync::Arc;

/// What an allocation takes beside what is in it.
const AROUND: usize = 32;
/// Memory is asked for in pieces of this size.
const PIECE: usize = 16 << 10;

/// Why a push is given up in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    Malformed(&'static str),
    /// There is no room now.
    Full,
    /// It would take more than any push may.
    TooLarge,
}

impl From<Malformed> for GivenUp {
    fn from(error: Malformed) -> GivenUp {
        GivenUp::Malformed(error.0)
    }
}

impl From<Full> for GivenUp {
    fn from(_: Full) -> GivenUp {
        GivenUp::Full
    }
}

pub(super) type Decoded<T> = Result<T, GivenUp>;

/// What the rows of one push take.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    taken: &'a mut Taken,
    used: usize,
    asked: usize,
    max: usize,
}

impl<'a> Memory<'a> {
    pub(super) fn new(taken: &'a mut Taken, max: usize) -> Memory<'a> {
        Memory { taken, used: 0, asked: 0, max }
    }

    pub(super) fn charge(&mut self, bytes: usize) -> Decoded<()> {
        self.used += bytes;
        if self.used > self.max {
            return Err(GivenUp::TooLarge);
        }
        if self.used > self.asked {
            let more = (self.used - self.asked).next_multiple_of(PIECE);
            self.taken.more(more)?;
            self.asked += more;
        }
        Ok(())
    }

    /// Room for another row; a list that grows takes more at once.
    pub(super) fn row<T>(&mut self, rows: &mut Vec<T>) -> Decoded<()> {
        if rows.len() == rows.capacity() {
            let more = rows.len().clamp(16, 1 << 16);
            self.charge(more * size_of::<T>())?;
            rows.reserve_exact(more);
        }
        Ok(())
    }

    /// A text, and its place in the journal's record.
    pub(super) fn text(&mut self, text: &str) -> Decoded<Arc<str>> {
        self.charge(2 * text.len() + AROUND)?;
        Ok(text.into())
    }
}
