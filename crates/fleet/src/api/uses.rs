//! What tokens did: of each token some of it is listed a minute, and all of it is counted. However often a token asks, its log grows
//! by a bounded amount.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Listed of each token in a minute: more than two people at a dashboard ask.
const LISTED: u64 = 240;
/// A minute's sums are a line for each request that was made; of more kinds of requests than these there is one for all others.
const KINDS: usize = 32;
const WINDOW_NS: i64 = 60_000_000_000;

/// What was asked: a path or a tool.
type What = String;

/// The uses of a minute, by token.
#[derive(Debug, Default)]
pub(super) struct Uses {
    began_ns: i64,
    by_token: HashMap<String, Use>,
}

#[derive(Debug, Default)]
struct Use {
    listed: u64,
    /// By what was asked and its status, those that are not listed. None: all others.
    counted: BTreeMap<(Option<What>, u16), Count>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    number: u64,
    first_ns: i64,
    last_ns: i64,
}

impl Uses {
    /// Whether it is listed; else it is counted.
    pub(super) fn is_listed(&mut self, token: &str, what: &str, status: u16, now_ns: i64) -> bool {
        if !self.by_token.contains_key(token) {
            self.by_token.insert(token.into(), Use::default());
        }
        let Some(used) = self.by_token.get_mut(token) else { return false };
        if used.listed < LISTED {
            used.listed += 1;
            return true;
        }
        let known = (Some(what.to_string()), status);
        let key = match used.counted.len() < KINDS || used.counted.contains_key(&known) {
            true => known,
            false => (None, status),
        };
        let count = used.counted.entry(key).or_insert(Count { number: 0, first_ns: now_ns, last_ns: now_ns });
        count.number += 1;
        count.last_ns = now_ns;
        false
    }

    /// The sums of a minute that is over, with the token that each is of.
    pub(super) fn over(&mut self, now_ns: i64) -> Vec<(String, Value)> {
        // Clocks are set back, too.
        if now_ns.abs_diff(self.began_ns) < WINDOW_NS as u64 {
            return Vec::new();
        }
        self.ended(now_ns)
    }

    /// All that was counted so far.
    pub(super) fn ended(&mut self, now_ns: i64) -> Vec<(String, Value)> {
        let over = std::mem::replace(self, Uses { began_ns: now_ns, ..Uses::default() });
        let lines = over.by_token.into_iter().flat_map(|(token, used)| {
            used.counted.into_iter().map(move |((what, status), count)| {
                let line = json!({
                    "at_ns": now_ns, "token": token, "path": what.as_deref().unwrap_or("others"), "status": status,
                    "count": count.number, "first_ns": count.first_ns, "last_ns": count.last_ns,
                });
                (token.clone(), line)
            })
        });
        lines.collect()
    }
}
