//! What a fleet tells with its answer, in headers or metadata of the same names.

use crate::ranks::Advice;

/// Nothing where the server is no fleet, or has nothing to tell of this push.
pub(super) fn advice<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Option<Advice> {
    let cohort = get("gpuwhy-cohort")?.to_string();
    let threshold = get("gpuwhy-threshold").and_then(|value| value.parse().ok());
    let quorum_met = get("gpuwhy-quorum-met") == Some("true");
    Some(Advice { threshold: threshold.filter(|value: &f64| value.is_finite()), quorum_met, cohort })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_tells_its_threshold_and_others_tell_nothing() {
        let reported = advice(|name| match name {
            "gpuwhy-cohort" => Some("a/job-7"),
            "gpuwhy-threshold" => Some("0.12"),
            "gpuwhy-quorum-met" => Some("true"),
            _ => None,
        });
        let expected = Advice { threshold: Some(0.12), quorum_met: true, cohort: "a/job-7".into() };
        assert_eq!(reported, Some(expected));
        assert_eq!(advice(|_| None), None);
        let odd = advice(|name| Some(if name == "gpuwhy-cohort" { "c" } else { "NaN" }));
        assert_eq!(odd.unwrap().threshold, None, "what is no number is no threshold");
    }
}
