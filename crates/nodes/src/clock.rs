//! How far a node's clock is ahead of ours: it says its time somewhere between our question and its answer, so half of the
//! shortest way there and back is all that can be wrong.

use gpuwhy_store::merge::Offset;

/// What one question told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Our unix time when it was asked, and how long the answer took.
    pub(crate) asked_ns: i64,
    pub(crate) took_ns: i64,
    /// What the node said.
    pub(crate) sent_ns: i64,
}

pub(crate) fn offset(samples: &[Sample]) -> Option<Offset> {
    let best = samples.iter().min_by_key(|sample| sample.took_ns)?;
    let half = best.took_ns / 2;
    let ahead_ns = best.sent_ns.saturating_sub(best.asked_ns.saturating_add(half));
    // An odd nanosecond is lost in the half.
    Some(Offset { ahead_ns, error_ns: half.saturating_add(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_tells_and_the_truth_lies_within_its_error() {
        // The node is 1000 ahead; the way back is slower than the way there.
        let sample = |asked_ns, there, back| Sample {
            asked_ns,
            took_ns: there + back,
            sent_ns: asked_ns + there + 1000,
        };
        let found = offset(&[sample(0, 400, 900), sample(5_000, 10, 31), sample(9_000, 700, 10)]).unwrap();
        assert_eq!(found.error_ns, 21);
        assert!((found.ahead_ns - 1000).abs() <= found.error_ns, "{found:?}");
        assert_eq!(offset(&[]), None);
    }

    #[test]
    fn an_absurd_clock_is_no_overflow() {
        let far = Sample { asked_ns: -5, took_ns: 10, sent_ns: i64::MAX };
        assert_eq!(offset(&[far]).unwrap().ahead_ns, i64::MAX);
    }
}
