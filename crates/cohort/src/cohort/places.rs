//! The lines of code a rank was met at while it was in no call.

use super::Place;
use gpuwhy_model::Cause;

/// Lines remembered of a rank.
const MAX: usize = 16;
/// How much a new report counts: a line of a few milliseconds a step is met in some reports only.
const FOLLOWS: f64 = 0.3;
/// What is left of a line that is met no more, before it is forgotten.
const MIN: f64 = 0.001;
const MAX_LINE_LEN: usize = 512;

#[derive(Debug, Clone, Default)]
pub(super) struct Places(Vec<Known>);

#[derive(Debug, Clone)]
struct Known {
    class: Cause,
    line: String,
    share: f64,
}

impl Places {
    /// What one report tells; lines it does not tell of were not met.
    pub(super) fn put(&mut self, places: &[Place<'_>]) {
        let is_first = self.0.is_empty();
        for known in &mut self.0 {
            known.share *= 1.0 - FOLLOWS;
        }
        for place in places.iter().filter(|place| place.share.is_finite() && place.line.len() <= MAX_LINE_LEN)
        {
            let counts = place.share.clamp(0.0, 1.0) * if is_first { 1.0 } else { FOLLOWS };
            match self.0.iter_mut().find(|known| known.class == place.class && known.line == place.line) {
                Some(known) => known.share += counts,
                None => self.0.push(Known { class: place.class, line: place.line.into(), share: counts }),
            }
        }
        self.0.retain(|known| known.share >= MIN);
        self.0.sort_by(|a, b| b.share.total_cmp(&a.share));
        self.0.truncate(MAX);
    }

    /// Class, line and share of all that are known.
    pub(super) fn all(&self) -> impl Iterator<Item = (Cause, &str, f64)> {
        self.0.iter().map(|known| (known.class, known.line.as_str(), known.share))
    }

    pub(super) fn share(&self, class: Cause, line: &str) -> f64 {
        let known = self.0.iter().find(|known| known.class == class && known.line == line);
        known.map_or(0.0, |known| known.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: &str, share: f64) -> Place<'_> {
        Place { class: Cause::SelfSleep, line, share }
    }

    #[test]
    fn a_line_met_in_every_third_report_keeps_its_share_and_one_that_is_left_fades() {
        let mut places = Places::default();
        places.put(&[place("old.py:1 f", 0.5)]);
        for report in 0..60 {
            match report % 3 {
                0 => places.put(&[place("train.py:9 load", 0.3)]),
                _ => places.put(&[]),
            }
        }
        let all: Vec<_> = places.all().map(|(_, line, _)| line.to_string()).collect();
        assert_eq!(all, ["train.py:9 load"]);
        let share = places.share(Cause::SelfSleep, "train.py:9 load");
        assert!((0.05..0.16).contains(&share), "{share}");
    }

    #[test]
    fn lines_are_bounded_in_number_and_length() {
        let mut places = Places::default();
        let lines: Vec<String> = (0..100).map(|line| format!("a.py:{line} f")).collect();
        places.put(&lines.iter().map(|line| place(line, 0.01)).collect::<Vec<_>>());
        places.put(&[place(&"x".repeat(10_000), 0.9), place("nan.py:1 f", f64::NAN)]);
        assert_eq!(places.all().count(), MAX);
        assert!(places.all().all(|(_, line, _)| line.starts_with("a.py")));
    }
}
