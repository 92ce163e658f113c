//! Entry points for the fuzzers in `fuzz/`: pages of metrics, and a folder that stands for /proc. Nothing else calls them.

use crate::find::find;
use crate::http::body;
use crate::kinds::{KINDS, of_page};
use crate::reading::Reading;
use std::path::Path;

/// Two pages of one server, as every kind; whether one of them is a kind's.
pub fn pages(before: &str, after: &str) -> bool {
    for kind in KINDS {
        let (before, after) = (Reading::of(kind, before), Reading::of(kind, after));
        after.since(&before, 1_000_000_000);
        before.since(&after, 0);
    }
    of_page(after).is_some()
}

/// An answer over HTTP.
pub fn answer(bytes: &[u8]) -> bool {
    body(bytes).is_ok()
}

/// Servers among the processes below a folder.
pub fn servers(proc: &Path) -> usize {
    find(proc).len()
}
