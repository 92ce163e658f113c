//! What an inference server says of itself: latencies of its requests, its queue and its cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A latency that servers publish as a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Time to the first token.
    Ttft,
    /// Time from token to token.
    Itl,
    /// The whole request.
    E2e,
    /// Before it was begun with.
    Queue,
}

impl Signal {
    pub const ALL: [Signal; 4] = [Signal::Ttft, Signal::Itl, Signal::E2e, Signal::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Signal::Ttft => "ttft",
            Signal::Itl => "itl",
            Signal::E2e => "e2e",
            Signal::Queue => "queue",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Signal::Ttft => "time to first token",
            Signal::Itl => "time from token to token",
            Signal::E2e => "whole request",
            Signal::Queue => "time in queue",
        }
    }
}

/// A server between two looks at it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerSample {
    pub time_ns: u64,
    /// Since the look before: what is counted below is of this time.
    pub window_ns: u64,
    /// `vllm`, `sglang`, `tgi` or `triton`.
    pub server: String,
    pub url: String,
    pub pid: Option<u32>,
    /// What it serves, as it says.
    pub model: String,
    pub running: Option<f64>,
    pub waiting: Option<f64>,
    pub kv_cache_pct: Option<f64>,
    pub preemptions: Option<u64>,
    /// Requests that were finished.
    pub requests: Option<u64>,
    pub prompt_tokens_per_s: Option<f64>,
    pub generation_tokens_per_s: Option<f64>,
    /// Drafted tokens that were accepted.
    pub spec_accept_pct: Option<f64>,
    pub latencies: BTreeMap<Signal, Latency>,
}

/// A latency in a time: as the server's buckets tell it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub sum_us: f64,
    /// Those that are not empty, in their order. None where the server tells sums only.
    pub buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    pub lower_us: f64,
    /// Nothing for the last one, which has no end.
    pub upper_us: Option<f64>,
    pub count: u64,
}

/// Where a quantile lies: nothing finer than its bucket is known for certain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// Between the bounds, as if values were spread evenly over the bucket; its lower bound in one without end.
    pub us: f64,
    pub lower_us: f64,
    pub upper_us: Option<f64>,
}

impl Latency {
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_us / self.count as f64)
    }

    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let total: u64 = self.buckets.iter().map(|bucket| bucket.count).sum();
        let wanted = q.clamp(0.0, 1.0) * total as f64;
        let mut before = 0.0;
        for bucket in self.buckets.iter().filter(|bucket| bucket.count > 0) {
            let count = bucket.count as f64;
            if before + count >= wanted {
                let part = ((wanted - before) / count).clamp(0.0, 1.0);
                let us = match bucket.upper_us {
                    Some(upper) => bucket.lower_us + (upper - bucket.lower_us) * part,
                    None => bucket.lower_us,
                };
                return Some(Quantile { us, lower_us: bucket.lower_us, upper_us: bucket.upper_us });
            }
            before += count;
        }
        None
    }

    /// Adds another time of the same server.
    pub fn merge(&mut self, other: &Latency) {
        self.count += other.count;
        self.sum_us += other.sum_us;
        for bucket in &other.buckets {
            let same = |own: &&mut Bucket| own.lower_us == bucket.lower_us && own.upper_us == bucket.upper_us;
            match self.buckets.iter_mut().find(same) {
                Some(own) => own.count += bucket.count,
                None => self.buckets.push(*bucket),
            }
        }
        self.buckets.sort_by(|a, b| {
            let upper = |bucket: &Bucket| bucket.upper_us.unwrap_or(f64::INFINITY);
            upper(a).total_cmp(&upper(b))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(lower_us: f64, upper_us: f64, count: u64) -> Bucket {
        Bucket { lower_us, upper_us: Some(upper_us).filter(|upper| upper.is_finite()), count }
    }

    #[test]
    fn quantiles_lie_in_their_bucket_and_say_which() {
        let buckets = vec![bucket(0.0, 10.0, 50), bucket(10.0, 20.0, 49), bucket(100.0, f64::INFINITY, 1)];
        let latency = Latency { count: 100, sum_us: 1200.0, buckets };
        assert_eq!(latency.quantile(0.5), Some(Quantile { us: 10.0, lower_us: 0.0, upper_us: Some(10.0) }));
        let p99 = latency.quantile(0.99).unwrap();
        assert_eq!((p99.us, p99.lower_us, p99.upper_us), (20.0, 10.0, Some(20.0)));
        assert_eq!(latency.quantile(1.0), Some(Quantile { us: 100.0, lower_us: 100.0, upper_us: None }));
        assert_eq!(Latency::default().quantile(0.5), None);
        assert_eq!((latency.mean_us(), Latency::default().mean_us()), (Some(12.0), None));
    }

    #[test]
    fn times_of_a_server_add_up_bucket_by_bucket() {
        let mut one = Latency { count: 1, sum_us: 5.0, buckets: vec![bucket(0.0, 10.0, 1)] };
        let other =
            Latency { count: 3, sum_us: 30.0, buckets: vec![bucket(10.0, 20.0, 1), bucket(0.0, 10.0, 2)] };
        one.merge(&other);
        assert_eq!((one.count, one.sum_us), (4, 35.0));
        assert_eq!(one.buckets, [bucket(0.0, 10.0, 3), bucket(10.0, 20.0, 1)]);
    }
}
