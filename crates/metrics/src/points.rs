//! The numbers themselves: a value for each metric and set of labels, at most [`MAX_SERIES`] of a metric; what is beyond
//! is summed in one series whose labels are all [`OTHER`].

use crate::distribution::Distribution;
use crate::owners::{self, Labels};
use crate::{Id, Kind, METRICS, Metric, OTHER};
use gpuwhy_model::units::printable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Series of one metric, the one for the rest included.
pub(crate) const MAX_SERIES: usize = 1000;
/// Characters of a label.
const MAX_LABEL_LEN: usize = 128;

/// A label's value: shared, as the same few are used again and again.
pub(crate) type Text = Arc<str>;

/// A string of a traced process as a label: shown, not obeyed, and not too long.
pub(crate) fn clean(text: &str) -> Text {
    let cut: String = text.chars().take(MAX_LABEL_LEN).collect();
    printable(&cut).into()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Of a counter, in nanoseconds where its unit is seconds.
    Count(u64),
    Gauge(f64),
    Distribution(Distribution),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// From when on it counts.
    pub(crate) start_ns: u64,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Points {
    families: BTreeMap<Id, BTreeMap<Vec<Text>, Series>>,
    /// When a series that begins now begins.
    now_ns: u64,
}

impl Points {
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    pub(crate) fn count(&mut self, id: Id, labels: Vec<Text>, more: u64) {
        if let Value::Count(count) = self.value(id, labels) {
            *count += more;
        }
    }

    /// A counter whose sum is known.
    pub(crate) fn set_count(&mut self, id: Id, labels: Vec<Text>, count: u64) {
        if let Value::Count(now) = self.value(id, labels) {
            *now = count.max(*now);
        }
    }

    pub(crate) fn set(&mut self, id: Id, labels: Vec<Text>, value: f64) {
        if let Value::Gauge(gauge) = self.value(id, labels) {
            *gauge = value;
        }
    }

    /// Of a gauge that is a sum over processes.
    pub(crate) fn change(&mut self, id: Id, labels: Vec<Text>, by: f64) {
        if let Value::Gauge(gauge) = self.value(id, labels) {
            *gauge += by;
        }
    }

    /// All gauges of a metric, before those that are not zero are told anew.
    pub(crate) fn zero(&mut self, id: Id) {
        for series in self.families.entry(id).or_default().values_mut() {
            series.value = Value::Gauge(0.0);
        }
    }

    pub(crate) fn distribution(&mut self, id: Id, labels: Vec<Text>) -> Option<&mut Distribution> {
        match self.value(id, labels) {
            Value::Distribution(distribution) => Some(distribution),
            _ => None,
        }
    }

    /// Those that have series, in the table's order.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&'static Metric, &BTreeMap<Vec<Text>, Series>)> {
        let families = self.families.iter().filter(|(_, series)| !series.is_empty());
        families.map(|(id, series)| (id.metric(), series))
    }

    /// What an owner had becomes the others': their sums only rise, and there is room again.
    pub(crate) fn fold(&mut self, owner: &Labels) {
        for metric in METRICS.iter().filter(|metric| metric.is_owned()) {
            let family = self.families.entry(metric.id).or_default();
            let folded: Vec<Vec<Text>> = family.keys().filter(|key| key.ends_with(owner)).cloned().collect();
            for key in folded {
                let Some(series) = self.families.entry(metric.id).or_default().remove(&key) else { continue };
                let mut labels = key[..key.len() - owner.len()].to_vec();
                labels.extend(owners::other());
                match (self.value(metric.id, labels), series.value) {
                    (Value::Count(sum), Value::Count(more)) => *sum += more,
                    (Value::Gauge(sum), Value::Gauge(more)) => *sum += more,
                    (Value::Distribution(sum), Value::Distribution(more)) => sum.merge(more),
                    _ => {}
                }
            }
        }
    }

    fn value(&mut self, id: Id, labels: Vec<Text>) -> &mut Value {
        debug_assert_eq!(labels.len(), id.metric().labels.len(), "{id:?}");
        let now_ns = self.now_ns;
        let family = self.families.entry(id).or_default();
        let has_room = family.len() + 1 < MAX_SERIES || family.contains_key(&labels);
        let key = if has_room { labels } else { vec![OTHER.into(); labels.len()] };
        let first = || Series {
            start_ns: now_ns,
            value: match id.metric().kind {
                Kind::Counter => Value::Count(0),
                Kind::Gauge => Value::Gauge(0.0),
                Kind::Histogram => Value::Distribution(Distribution::default()),
            },
        };
        &mut family.entry(key).or_insert_with(first).value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Labels {
        [name.into(), "".into(), "".into()]
    }

    fn calls(op: &str, owner: &Labels) -> Vec<Text> {
        std::iter::once(Text::from(op)).chain(owner.iter().cloned()).collect()
    }

    fn total(points: &Points, id: Id) -> u64 {
        let series = points.families[&id].values();
        series.map(|series| if let Value::Count(n) = series.value { n } else { 0 }).sum()
    }

    #[test]
    fn beyond_the_cap_everything_is_still_counted() {
        let mut points = Points::default();
        for op in 0..3 * MAX_SERIES {
            points.count(Id::Calls, calls(&format!("op{op}"), &owner("p")), 2);
        }
        assert_eq!(points.families[&Id::Calls].len(), MAX_SERIES);
        assert_eq!(total(&points, Id::Calls), 6 * MAX_SERIES as u64);
        let rest = vec![Text::from(OTHER); 4];
        let expected = Value::Count(2 * (2 * MAX_SERIES as u64 + 1));
        assert_eq!(points.families[&Id::Calls][&rest].value, expected);
    }

    #[test]
    fn an_owner_that_makes_room_stays_in_the_sums() {
        let mut points = Points::default();
        points.set_now(5);
        points.count(Id::Calls, calls("a", &owner("old")), 3);
        points.count(Id::Calls, calls("a", &owner("new")), 4);
        points.distribution(Id::CallDuration, calls("a", &owner("old"))).unwrap().record(70);
        points.fold(&owner("old"));
        assert_eq!(total(&points, Id::Calls), 7);
        let others = &points.families[&Id::CallDuration][&calls("a", &owners::other())];
        assert!(matches!(&others.value, Value::Distribution(d) if d.count() == 1));
        assert_eq!(points.families[&Id::CallDuration].len(), 1);
    }

    #[test]
    fn labels_of_processes_are_tamed() {
        assert_eq!(&*clean("a\u{1b}[2J\n"), "a\u{fffd}[2J\u{fffd}");
        assert_eq!(clean(&"x".repeat(1 << 20)).len(), MAX_LABEL_LEN);
    }
}
