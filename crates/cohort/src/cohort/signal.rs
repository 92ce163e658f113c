//! The signals of a rank: what each means, which way is worse, and what it may be used for.

use gpuwhy_model::Cause;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What an agent tells of a rank with every push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    Health,
    StepSeconds,
    OwnSeconds,
    LaunchRate,
    IdleRatio,
    Blame(Cause),
    LateSeconds,
    ClockHertz,
    Errors,
    LostRecords,
}

/// What a signal is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A rank that is worse than its peers here is a straggler.
    Accuses,
    /// All ranks have the same: compared with the cohort's own past.
    Regresses,
    /// Says why, of a rank that something else accuses.
    Explains,
    /// Kept for those who ask.
    Reported,
}

/// What a difference is measured in, so that one rule fits all signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As a share of a step.
    Step,
    /// As a share of the peers' median.
    Median,
    /// As it is: a share already.
    Plain,
}

pub(crate) struct Facts {
    pub metric: &'static str,
    pub unit: &'static str,
    pub higher_is_worse: bool,
    pub used: Use,
    pub scale: Scale,
}

impl Signal {
    /// Without [`Signal::Blame`], which there is one of for each cause.
    pub const PLAIN: [Signal; 9] = [
        Signal::Health,
        Signal::StepSeconds,
        Signal::OwnSeconds,
        Signal::LaunchRate,
        Signal::IdleRatio,
        Signal::LateSeconds,
        Signal::ClockHertz,
        Signal::Errors,
        Signal::LostRecords,
    ];

    pub(crate) fn facts(self) -> Facts {
        let facts =
            |metric, unit, higher_is_worse, used, scale| Facts { metric, unit, higher_is_worse, used, scale };
        match self {
            Signal::Health => facts("gpuwhy.rank.health", "1", false, Use::Accuses, Scale::Plain),
            Signal::StepSeconds => {
                facts("gpuwhy.rank.step_seconds", "s", true, Use::Regresses, Scale::Median)
            }
            Signal::OwnSeconds => facts("gpuwhy.rank.own_seconds", "s", true, Use::Accuses, Scale::Step),
            Signal::LaunchRate => {
                facts("gpuwhy.rank.launch_rate", "1/s", false, Use::Reported, Scale::Median)
            }
            Signal::IdleRatio => facts("gpuwhy.rank.idle_ratio", "1", true, Use::Explains, Scale::Plain),
            // What happens on the way to the peers takes time within the collective, where nobody looks late.
            Signal::Blame(Cause::NetTcp | Cause::RdmaFabric | Cause::GpuThrottle | Cause::GpuError) => {
                facts("gpuwhy.rank.blame_ratio", "1", true, Use::Accuses, Scale::Plain)
            }
            Signal::Blame(_) => facts("gpuwhy.rank.blame_ratio", "1", true, Use::Explains, Scale::Plain),
            Signal::LateSeconds => facts("gpuwhy.rank.late_seconds", "s", true, Use::Accuses, Scale::Step),
            Signal::ClockHertz => facts("gpuwhy.rank.clock_hertz", "Hz", false, Use::Accuses, Scale::Median),
            Signal::Errors => facts("gpuwhy.rank.errors", "{error}", true, Use::Explains, Scale::Plain),
            Signal::LostRecords => {
                facts("gpuwhy.rank.lost_records", "{record}", true, Use::Reported, Scale::Plain)
            }
        }
    }

    /// The metric's name on the wire.
    pub fn metric(self) -> &'static str {
        self.facts().metric
    }

    pub fn unit(self) -> &'static str {
        self.facts().unit
    }

    pub fn higher_is_worse(self) -> bool {
        self.facts().higher_is_worse
    }

    /// Of a metric's name and, for `gpuwhy.rank.blame_ratio`, its attribute `class`. Nothing for metrics that no rule uses.
    pub fn of_metric(name: &str, class: Option<&str>) -> Option<Signal> {
        if name == "gpuwhy.rank.blame_ratio" {
            let cause = Cause::ALL.iter().find(|cause| Some(cause.name()) == class);
            return Some(Signal::Blame(cause.copied().unwrap_or(Cause::Unknown)));
        }
        Signal::PLAIN.into_iter().find(|signal| signal.metric() == name)
    }
}

/// The metric, and which cause of it: `gpuwhy.rank.blame_ratio{cpu.preempted}`.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signal::Blame(cause) => write!(f, "{}{{{}}}", self.metric(), cause.name()),
            _ => f.write_str(self.metric()),
        }
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Signal {
    fn schema_name() -> Cow<'static, str> {
        "Signal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "a metric's name, and the cause where it has one" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_found_by_its_metric() {
        for signal in Signal::PLAIN {
            assert_eq!(Signal::of_metric(signal.metric(), None), Some(signal));
        }
        let blame = Signal::of_metric("gpuwhy.rank.blame_ratio", Some("net.tcp"));
        assert_eq!(blame, Some(Signal::Blame(Cause::NetTcp)));
        assert_eq!(Signal::of_metric("http.server.duration", None), None);
        assert_eq!(Signal::Blame(Cause::NetTcp).to_string(), "gpuwhy.rank.blame_ratio{net.tcp}");
    }
}
