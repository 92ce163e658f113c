//! How bad: the share of a process's time that something took from it.

use gpuwhy_model::Severity;

/// Half of the time, a fifth, a twentieth: what doubles a bill, what people notice, and what a busy but healthy host
/// does not reach (measured on clean runs: below 2%).
const CRITICAL: f64 = 50.0;
const HIGH: f64 = 20.0;
const MEDIUM: f64 = 5.0;
/// Below it there is nothing to say.
pub(crate) const MIN_PCT: f64 = 1.0;
/// And a short hiccup is no fault, whatever its share of a short trace is.
const MEDIUM_NS: u64 = 50_000_000;
pub(crate) const MIN_NS: u64 = 5_000_000;

/// Of time that was taken from a process.
pub(crate) fn of_taken(ns: u64, wall_ns: u64) -> Severity {
    let pct = percent(ns, wall_ns);
    match ns {
        ns if ns < MEDIUM_NS => Severity::Low,
        _ if pct >= CRITICAL => Severity::Critical,
        _ if pct >= HIGH => Severity::High,
        _ if pct >= MEDIUM => Severity::Medium,
        _ => Severity::Low,
    }
}

/// Worth a finding at all.
pub(crate) fn matters(ns: u64, wall_ns: u64) -> bool {
    ns >= MIN_NS && percent(ns, wall_ns) >= MIN_PCT
}

pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_time_decides_but_not_of_moments() {
        let second = 1_000_000_000;
        assert_eq!(of_taken(6 * second, 10 * second), Severity::Critical);
        assert_eq!(of_taken(2 * second, 10 * second), Severity::High);
        assert_eq!(of_taken(second / 2, 10 * second), Severity::Medium);
        assert_eq!(of_taken(second / 10, 10 * second), Severity::Low);
        assert_eq!(of_taken(40_000_000, 50_000_000), Severity::Low);
        assert!(!matters(second / 100, 10 * second));
    }
}
