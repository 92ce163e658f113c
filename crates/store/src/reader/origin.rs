//! Who made a trace, and what it therefore cannot tell.

use super::Reader;
use crate::schema::Clock;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Maker {
    Gpuwhy,
    Ingero,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub maker: Maker,
    /// The version of the maker's schema that the file has, as `3` or `0.8`; empty where it does not say.
    pub schema: String,
    /// What the data cannot support, a sentence each, what matters most first; part of every answer's coverage.
    pub notes: Vec<String>,
}

impl Origin {
    /// Whether calls say where their time went, and blame who was behind it. Where not, zeros of a
    /// [`gpuwhy_model::Blame`] mean that nothing is known; see [`Reader::off_cpu_within`].
    pub fn has_blame(&self) -> bool {
        self.maker == Maker::Gpuwhy
    }
}

impl Reader {
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn clock(&self) -> Clock {
        if self.origin.has_blame() { Clock::Blame } else { Clock::None }
    }
}
