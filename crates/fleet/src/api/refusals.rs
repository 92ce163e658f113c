//! What was refused, and who showed no token: some of it is listed, and all of it is counted. Whoever is refused half a million
//! times writes a few lines by it, and none of them among what tokens did.

use gpuwhy_http::Peer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Listed at once of each address, and of all.
const BURST: u64 = 20;
const BURST_OF_ALL: u64 = 100;
/// A minute's sums are a line for each address; of more addresses than these there is one for all others.
const ADDRESSES: usize = 64;
const WINDOW_NS: i64 = 60_000_000_000;

/// The refusals of a minute.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    began_ns: i64,
    listed: u64,
    /// None: all other addresses.
    counted: BTreeMap<Option<IpAddr>, Count>,
}

#[derive(Debug, Default, Clone)]
struct Count {
    listed: u64,
    first_ns: i64,
    last_ns: i64,
    /// By status, those that are not listed.
    by_status: BTreeMap<u16, u64>,
}

/// The network that an address is of: whoever has one address of IPv6 has 2^64 of them.
pub(super) fn network(peer: Option<Peer>) -> Option<IpAddr> {
    match peer?.0.ip().to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            Some(IpAddr::V6(segments.into()))
        }
        address => Some(address),
    }
}

impl Refusals {
    /// Whether it is listed; else it is counted.
    pub(super) fn is_listed(&mut self, peer: Option<Peer>, status: u16, now_ns: i64) -> bool {
        let address = network(peer)
            .filter(|address| self.counted.len() < ADDRESSES || self.counted.contains_key(&Some(*address)));
        let count = self.counted.entry(address).or_default();
        if count.listed < BURST && self.listed < BURST_OF_ALL {
            count.listed += 1;
            self.listed += 1;
            return true;
        }
        if count.by_status.is_empty() {
            count.first_ns = now_ns;
        }
        count.last_ns = now_ns;
        *count.by_status.entry(status).or_default() += 1;
        false
    }

    /// The sums of a minute that is over, a line each.
    pub(super) fn over(&mut self, now_ns: i64) -> Vec<Value> {
        // Clocks are set back, too.
        if now_ns.abs_diff(self.began_ns) < WINDOW_NS as u64 {
            return Vec::new();
        }
        self.ended(now_ns)
    }

    /// All that was counted so far.
    pub(super) fn ended(&mut self, now_ns: i64) -> Vec<Value> {
        let over = std::mem::replace(self, Refusals { began_ns: now_ns, ..Refusals::default() });
        let lines = over.counted.into_iter().flat_map(|(address, count)| {
            let peer = address.map_or_else(|| "others".into(), |address| address.to_string());
            let each = count.by_status.clone().into_iter();
            each.map(move |(status, number)| {
                json!({
                    "at_ns": now_ns, "peer": peer, "status": status, "count": number,
                    "first_ns": count.first_ns, "last_ns": count.last_ns,
                })
            })
        });
        lines.collect()
    }
}
