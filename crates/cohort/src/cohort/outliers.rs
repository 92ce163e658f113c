//! The plain rule, for any metric somebody names: whoever is beyond median +- k x 1.4826 x MAD.

use crate::robust::{MAD_TO_SIGMA, mad, median};
use schemars::JsonSchema;
use serde::Serialize;

/// Members vary by so much of the median for no reason: equal ones do not alarm on nothing.
const FLOOR_SHARE: f64 = 0.01;
const QUORUM: usize = 3;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    pub member: String,
    pub value: f64,
    /// How many deviations it is away from the median, on the worse side.
    pub deviations: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outliers {
    pub median: Option<f64>,
    pub mad: Option<f64>,
    pub threshold: Option<f64>,
    /// At least three members; else nobody is accused.
    pub quorum_met: bool,
    pub members: usize,
    /// The farthest first.
    pub outliers: Vec<Outlier>,
}

/// One value a member: its median over the time asked about.
pub fn outliers(values: &[(String, f64)], higher_is_worse: bool, k: f64) -> Outliers {
    let known: Vec<&(String, f64)> = values.iter().filter(|(_, value)| value.is_finite()).collect();
    let plain: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let Some(middle) = median(&mut plain.clone()) else {
        return Outliers {
            median: None,
            mad: None,
            threshold: None,
            quorum_met: false,
            members: 0,
            outliers: Vec::new(),
        };
    };
    let spread = mad(&plain, middle);
    let sigma = (MAD_TO_SIGMA * spread).max(FLOOR_SHARE * middle.abs()).max(f64::MIN_POSITIVE);
    let sign = if higher_is_worse { 1.0 } else { -1.0 };
    let quorum_met = known.len() >= QUORUM;
    let mut outliers: Vec<Outlier> = known
        .iter()
        .map(|(member, value)| Outlier {
            member: member.clone(),
            value: *value,
            deviations: sign * (value - middle) / sigma,
        })
        .filter(|outlier| quorum_met && outlier.deviations > k)
        .collect();
    outliers.sort_by(|a, b| b.deviations.total_cmp(&a.deviations).then_with(|| a.member.cmp(&b.member)));
    Outliers {
        median: Some(middle),
        mad: Some(spread),
        threshold: Some(middle + sign * k * sigma),
        quorum_met,
        members: known.len(),
        outliers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[f64]) -> Vec<(String, f64)> {
        values.iter().enumerate().map(|(at, value)| (format!("node{at}"), *value)).collect()
    }

    #[test]
    fn the_one_that_is_worse_is_named_and_the_better_one_is_not() {
        let found = outliers(&values(&[0.99, 0.98, 1.0, 0.97, 0.5, 0.99]), false, 3.0);
        assert_eq!(found.outliers.iter().map(|o| o.member.as_str()).collect::<Vec<_>>(), ["node4"]);
        assert!(outliers(&values(&[1.0, 1.0, 1.0, 0.1]), true, 3.0).outliers.is_empty());
    }

    #[test]
    fn equal_members_and_too_few_alarm_nobody() {
        assert!(outliers(&values(&[1.0, 1.0, 1.0, 1.01]), true, 3.0).outliers.is_empty());
        let two = outliers(&values(&[1.0, 9.0]), true, 3.0);
        assert!(!two.quorum_met && two.outliers.is_empty());
        assert_eq!(outliers(&values(&[f64::NAN]), true, 3.0).median, None);
    }
}
