//! What of a push was not taken, and why: told to whoever sent it as OTLP's partial success.

use std::collections::BTreeMap;

/// Why points are left out. Each is for what that push itself has in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    NotYours,
    Ahead,
    Behind,
    Attributes,
    LongName,
    Names,
    Malformed,
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Why::NotYours => "are of a cluster this token may not push to",
            Why::Ahead => "are ahead of this server's clock",
            Why::Behind => "are too old",
            Why::Attributes => "have too many or too large attributes",
            Why::LongName => "have names that are too long",
            Why::Names => "have new names, of which this token or its cluster has too many already",
            Why::Malformed => "are malformed",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Why, u64>);

impl LeftOut {
    pub(super) fn add(&mut self, why: Why, count: u64) {
        *self.0.entry(why).or_default() += count;
    }

    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// One sentence; nothing where nothing was left out.
    pub fn sentence(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(why, count)| format!("{count} {}", why.words())).collect();
        parts.join("; ")
    }
}
