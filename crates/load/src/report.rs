//! What came of a load, for people and for programs.

use crate::score::Score;
use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub seed: u64,
    pub agents: usize,
    pub jobs: usize,
    pub seconds: f64,
    /// Requests that were taken; a push of an agent is two.
    pub requests: u64,
    pub requests_again: u64,
    pub requests_failed: u64,
    pub points: u64,
    pub bytes: u64,
    pub reply_p50_ms: f64,
    pub reply_p99_ms: f64,
    pub reply_max_ms: f64,
    /// Pushes that were sent later than they were due by more than half an interval: this machine could not keep up.
    pub late_pushes: u64,
    pub stragglers: Score,
    pub hangs: Score,
    /// Of the first job with several nodes.
    pub clock_worst_error_ns: Option<u64>,
}

impl Report {
    /// Found what was planted, and little else: precision 0.97 and recall 0.95.
    pub fn is_good(&self) -> bool {
        let good = |score: &Score| {
            score.precision.is_none_or(|precision| precision >= 0.97)
                && score.recall.is_none_or(|recall| recall >= 0.95)
        };
        good(&self.stragglers) && good(&self.hangs)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} agents in {} jobs for {:.0} s, seed {}",
            self.agents, self.jobs, self.seconds, self.seed
        )?;
        writeln!(
            f,
            "  requests   {} taken ({:.0} points/s, {:.1} MB/s), {} sent again, {} failed, {} sent late",
            self.requests,
            self.points as f64 / self.seconds.max(1.0),
            self.bytes as f64 / 1e6 / self.seconds.max(1.0),
            self.requests_again,
            self.requests_failed,
            self.late_pushes
        )?;
        writeln!(
            f,
            "  replies    {:.1} ms at p50, {:.1} ms at p99, {:.1} ms at most",
            self.reply_p50_ms, self.reply_p99_ms, self.reply_max_ms
        )?;
        line(f, "stragglers", &self.stragglers)?;
        line(f, "hangs", &self.hangs)?;
        if let Some(error) = self.clock_worst_error_ns {
            writeln!(f, "  clocks     off by {:.1} us at most", error as f64 / 1e3)?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, score: &Score) -> fmt::Result {
    write!(
        f,
        "  {name:<10} {} planted, {} found, {} named wrongly",
        score.planted, score.found, score.wrong
    )?;
    if let (Some(precision), Some(recall)) = (score.precision, score.recall) {
        write!(f, ": precision {precision:.3}, recall {recall:.3}")?;
    }
    if let (Some(median), Some(p90)) = (score.median_seconds, score.p90_seconds) {
        write!(f, "; named after {median:.1} s (median), {p90:.1} s (p90)")?;
    }
    writeln!(f)?;
    for (what, ranks) in [("missed", &score.missed), ("named wrongly", &score.accused)] {
        if !ranks.is_empty() {
            writeln!(f, "             {what}: {}", ranks.join(", "))?;
        }
    }
    Ok(())
}
