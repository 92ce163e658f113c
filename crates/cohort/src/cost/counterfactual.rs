//! What a job would save if a rank were like the others, and how sure that is.

use super::figures::{dollars, figure};
use schemars::JsonSchema;
use serde::Serialize;

/// Hours of a month: a twelfth of a year.
const MONTH_HOURS: f64 = 730.5;
/// Student's t for 95%, by degrees of freedom from 1.
const T95: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];

/// Had the rank come to each collective with the one before it, all ranks would have waited that much less.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Counterfactual {
    /// Whose rank it is; whoever asks for several jobs says it.
    pub cluster: Option<String>,
    pub job: Option<String>,
    pub rank: u32,
    /// GPUs that would have waited less.
    pub gpus: u32,
    /// Of the job's time, with its interval of 95%.
    pub share: f64,
    pub share_low: f64,
    pub share_high: f64,
    pub gpu_hours_a_month: f64,
    pub gpu_hours_low: f64,
    pub gpu_hours_high: f64,
    /// Nothing where no rate fits.
    pub dollars_a_month: Option<f64>,
    #[serde(flatten, serialize_with = "gpuwhy_model::with_old_name")]
    #[schemars(with = "gpuwhy_model::Message<String>")]
    pub message: String,
}

impl Counterfactual {
    /// From what was saved of each stretch of time, as [`crate::collectives::RankLateness::saved_shares`] tells. Nothing from fewer
    /// than two: one says nothing of how much they vary.
    pub fn of(
        rank: u32,
        gpus: u32,
        saved_shares: &[f64],
        dollars_an_hour: Option<f64>,
    ) -> Option<Counterfactual> {
        let (share, within) = interval(saved_shares)?;
        let (share_low, share_high) = ((share - within).max(0.0), (share + within).min(1.0));
        let hours = |share: f64| share * f64::from(gpus) * MONTH_HOURS;
        let mut counterfactual = Counterfactual {
            cluster: None,
            job: None,
            rank,
            gpus,
            share,
            share_low,
            share_high,
            gpu_hours_a_month: hours(share),
            gpu_hours_low: hours(share_low),
            gpu_hours_high: hours(share_high),
            dollars_a_month: dollars_an_hour.map(|rate| rate * hours(share)),
            message: String::new(),
        };
        counterfactual.message = counterfactual.sentence();
        Some(counterfactual)
    }

    fn sentence(&self) -> String {
        let money = self.dollars_a_month.map(|sum| format!(" and {}", dollars(sum))).unwrap_or_default();
        format!(
            "if rank {} were the median, {} GPU-h{money} a month would be saved (95%: {} to {} GPU-h)",
            self.rank,
            figure(self.gpu_hours_a_month),
            figure(self.gpu_hours_low),
            figure(self.gpu_hours_high)
        )
    }
}

/// The mean, and half of its interval of 95%. Stretches that follow each other are alike: fewer of them count.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    let lagged: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let alike = if variance > 0.0 { (lagged / (variance * (count - 1) as f64)).clamp(0.0, 0.9) } else { 0.0 };
    let counting = (count as f64 * (1.0 - alike) / (1.0 + alike)).max(2.0);
    let t = T95.get(counting as usize - 2).copied().unwrap_or(2.0);
    Some((mean, t * (variance / counting).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_has_hours_dollars_and_the_interval() {
        // 64 GPUs that wait 2.806% of the time: 1,312 hours a month.
        let shares: Vec<f64> =
            (0..40).map(|at| 0.028_06 + if at % 2 == 0 { 0.001 } else { -0.001 }).collect();
        let reported = Counterfactual::of(5, 64, &shares, Some(5.0)).unwrap();
        assert!(
            reported
                .message
                .starts_with("if rank 5 were the median, 1,312 GPU-h and $6,559 a month would be saved"),
            "{}",
            reported.message
        );
        assert!(reported.gpu_hours_low < 1312.0 && reported.gpu_hours_high > 1312.0);
        assert!(reported.gpu_hours_high - reported.gpu_hours_low < 60.0);
        let unpriced = Counterfactual::of(5, 64, &shares, None).unwrap();
        assert!(!unpriced.message.contains('$'));
    }

    #[test]
    fn one_observation_has_no_interval_and_few_have_a_wide_one() {
        assert_eq!(Counterfactual::of(0, 8, &[0.1], None), None);
        let (_, few) = interval(&[0.1, 0.2, 0.1]).unwrap();
        let (_, many) = interval(&[0.1, 0.2, 0.1].repeat(20)).unwrap();
        assert!(few > 5.0 * many, "{few} {many}");
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // Means of 20 draws whose true mean is 0.05: of 400 intervals about 95% hold it.
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        let held = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..20).map(|_| 0.1 * draw()).collect();
                let (mean, within) = interval(&values).unwrap();
                (mean - 0.05).abs() <= within
            })
            .count();
        assert!((366..=400).contains(&held), "{held}");
    }
}
