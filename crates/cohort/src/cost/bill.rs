//! Lost time, added up and priced.

use super::figures::{dollars, figure};
use super::{Counterfactual, Rates};
use gpuwhy_model::Cause;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Time that GPUs of a job lost for one reason. A straggler's is what all ranks waited for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub cluster: String,
    pub job: String,
    /// Whose fault it is, or whose time it is where nobody else lost any.
    pub rank: Option<u32>,
    pub cause: Cause,
    /// The GPU's name, for its rate.
    pub gpu: Option<String>,
    /// Summed over GPUs.
    pub gpu_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CostLine {
    pub name: String,
    pub gpu_hours: f64,
    /// Nothing where no rate fits any of it.
    pub dollars: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    pub gpu_hours: f64,
    pub dollars: Option<f64>,
    /// Hours that no line of the rates fits.
    pub unpriced_gpu_hours: f64,
    /// The dearest first, in each.
    pub by_cluster: Vec<CostLine>,
    pub by_job: Vec<CostLine>,
    pub by_rank: Vec<CostLine>,
    pub by_cause: Vec<CostLine>,
    pub counterfactuals: Vec<Counterfactual>,
    #[serde(flatten, serialize_with = "gpuwhy_model::with_old_name")]
    #[schemars(with = "gpuwhy_model::Message<Vec<String>>")]
    pub message: Vec<String>,
}

/// What it all cost. `counterfactuals` are told with it, the dearest first.
pub fn cost(rates: &Rates, losses: &[Loss], mut counterfactuals: Vec<Counterfactual>) -> Cost {
    let mut sums = [(); 4].map(|()| BTreeMap::<String, Sum>::new());
    let mut total = Sum::default();
    for loss in losses.iter().filter(|loss| loss.gpu_seconds.is_finite() && loss.gpu_seconds > 0.0) {
        let hours = loss.gpu_seconds / 3600.0;
        let rate = rates.of(&loss.cluster, loss.gpu.as_deref());
        let job = format!("{}/{}", loss.cluster, loss.job);
        let rank = loss.rank.map_or_else(|| format!("{job} (no rank)"), |rank| format!("{job} rank {rank}"));
        let names = [loss.cluster.clone(), job, rank, loss.cause.name().to_string()];
        total.add(hours, rate);
        for (sums, name) in sums.iter_mut().zip(names) {
            sums.entry(name).or_default().add(hours, rate);
        }
    }
    counterfactuals.sort_by(|a, b| b.gpu_hours_a_month.total_cmp(&a.gpu_hours_a_month));
    let [by_cluster, by_job, by_rank, by_cause] = sums.map(lines);
    let mut message = vec![total.message(&by_cause)];
    message.extend(counterfactuals.iter().map(|counterfactual| counterfactual.message.clone()));
    Cost {
        gpu_hours: total.hours,
        dollars: total.dollars,
        unpriced_gpu_hours: total.unpriced,
        by_cluster,
        by_job,
        by_rank,
        by_cause,
        counterfactuals,
        message,
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    hours: f64,
    unpriced: f64,
    dollars: Option<f64>,
}

impl Sum {
    fn add(&mut self, hours: f64, rate: Option<f64>) {
        self.hours += hours;
        match rate {
            Some(rate) => *self.dollars.get_or_insert(0.0) += rate * hours,
            None => self.unpriced += hours,
        }
    }

    fn message(&self, by_cause: &[CostLine]) -> String {
        let money = self.dollars.map(|sum| format!(", {}", dollars(sum))).unwrap_or_default();
        let unpriced = match self.unpriced {
            hours if hours > 0.0 && self.dollars.is_some() => {
                format!("; no rate fits {} GPU-h of it", figure(hours))
            }
            hours if hours > 0.0 => "; no rate fits, so there is no price".into(),
            _ => String::new(),
        };
        let most = by_cause.first().map(|line| format!(", most of it to {}", line.name)).unwrap_or_default();
        format!("{} GPU-h lost{money}{most}{unpriced}", figure(self.hours))
    }
}

fn lines(sums: BTreeMap<String, Sum>) -> Vec<CostLine> {
    let mut lines: Vec<CostLine> = sums
        .into_iter()
        .map(|(name, sum)| CostLine { name, gpu_hours: sum.hours, dollars: sum.dollars })
        .collect();
    lines.sort_by(|a, b| {
        let (money_a, money_b) = (a.dollars.unwrap_or(0.0), b.dollars.unwrap_or(0.0));
        money_b
            .total_cmp(&money_a)
            .then(b.gpu_hours.total_cmp(&a.gpu_hours))
            .then_with(|| a.name.cmp(&b.name))
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(job: &str, rank: u32, cause: Cause, gpu_seconds: f64) -> Loss {
        Loss { cluster: "prod".into(), job: job.into(), rank: Some(rank), cause, gpu: None, gpu_seconds }
    }

    #[test]
    fn every_sum_is_of_the_same_whole() {
        let losses = [
            loss("a", 5, Cause::RankStraggler, 7200.0),
            loss("a", 1, Cause::IoFile, 1800.0),
            loss("b", 5, Cause::RankStraggler, 3600.0),
        ];
        let cost = cost(&Rates::parse("prod * 4").unwrap(), &losses, Vec::new());
        assert_eq!((cost.gpu_hours, cost.dollars), (3.5, Some(14.0)));
        for lines in [&cost.by_cluster, &cost.by_job, &cost.by_rank, &cost.by_cause] {
            assert_eq!(lines.iter().map(|line| line.gpu_hours).sum::<f64>(), 3.5);
        }
        assert_eq!(cost.by_rank[0].name, "prod/a rank 5");
        assert_eq!(cost.message, ["3.5 GPU-h lost, $14.00, most of it to rank.straggler"]);
    }

    #[test]
    fn what_has_no_price_is_said() {
        let losses =
            [loss("a", 5, Cause::RankStraggler, 3600.0), loss("a", 5, Cause::RankStraggler, f64::NAN)];
        let cost = cost(&Rates::default(), &losses, Vec::new());
        assert_eq!((cost.dollars, cost.unpriced_gpu_hours), (None, 1.0));
        assert!(cost.message[0].ends_with("no rate fits, so there is no price"), "{:?}", cost.message);
    }
}
