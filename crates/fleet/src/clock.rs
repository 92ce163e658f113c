//! The clock, in the one place that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
