//! How much of everything is taken. What goes beyond is refused with its reason, and counted.

use gpuwhy_cohort::shares::Sharing;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request, unpacked.
    pub request_bytes: usize,
    /// Bytes of all requests that are being read or decoded, or wait for the journal or to be compared: as much as they really
    /// take.
    pub memory_bytes: usize,
    /// Bytes that may be in the journal and not in the store.
    pub journal_bytes: u64,
    /// Attributes of a point.
    pub attributes: usize,
    /// Bytes of a point's attributes.
    pub attribute_bytes: usize,
    /// Bytes of a name, as of a cluster, a node or a metric.
    pub name_bytes: usize,
    /// Different names: metrics, nodes and jobs each.
    pub names: usize,
    /// Clusters that one token pushes to.
    pub clusters: usize,
    /// Where there are several tenants, none of them has more of memory and names than is left for the others.
    pub sharing: Sharing,
    /// Points may be so far ahead of this server's clock.
    pub ahead: Duration,
    /// Points may be so old: agents keep what they could not send.
    pub behind: Duration,
    /// From a request's head to the end of its body.
    pub patience: Duration,
    /// Collectives of one log record.
    pub collectives: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes: 16 << 20,
            memory_bytes: 256 << 20,
            journal_bytes: 1 << 30,
            attributes: 128,
            attribute_bytes: 32 << 10,
            name_bytes: 256,
            names: 100_000,
            clusters: 1_000,
            sharing: Sharing::default(),
            ahead: Duration::from_secs(600),
            behind: Duration::from_secs(7 * 86_400),
            patience: Duration::from_secs(30),
            collectives: 65_536,
        }
    }
}
