//! The rules: each looks at the case for one thing. One file each, one line each in this table; `docs/rules.md` is made
//! from it.

mod clocks;
mod copies;
mod critical_path;
mod driver_errors;
mod fabric;
mod foreign_calls;
mod gpu_waits;
mod hung_ranks;
mod late_ranks;
mod memory_failures;
mod memory_growth;
mod memory_pressure;
mod numa;
mod oom_kills;
mod periodic;
mod recaptures;
mod retransmits;
mod slow_calls;
mod slower;
mod tenants;
mod unknown_order;

pub use retransmits::{RETRANSMIT_TIMER_NS, lost_to_retransmits};

use crate::case::Case;
use crate::draft::Draft;
use gpuwhy_model::{Cause, Finding};

/// What is looked for, when it is said, and what would show that it is not so.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    pub about: &'static str,
    /// The classes it may name.
    pub causes: &'static [Cause],
    /// From when on it is a finding, and why then.
    pub threshold: &'static str,
    pub refuted_by: &'static str,
    find: fn(&Case<'_>) -> Vec<Draft>,
}

pub static RULES: &[Rule] = &[
    slow_calls::RULE,
    gpu_waits::RULE,
    critical_path::RULE,
    copies::RULE,
    recaptures::RULE,
    memory_failures::RULE,
    memory_growth::RULE,
    memory_pressure::RULE,
    clocks::RULE,
    driver_errors::RULE,
    late_ranks::RULE,
    hung_ranks::RULE,
    unknown_order::RULE,
    retransmits::RULE,
    fabric::RULE,
    oom_kills::RULE,
    numa::RULE,
    periodic::RULE,
    slower::RULE,
    tenants::RULE,
    foreign_calls::RULE,
];

impl Rule {
    pub(crate) fn findings(&self, case: &Case<'_>) -> Vec<Finding> {
        (self.find)(case)
            .into_iter()
            .map(|mut draft| {
                if draft.refuted_by.is_empty() {
                    draft.refuted_by = self.refuted_by.into();
                }
                draft.finish(self.name, case)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_row_and_every_row_says_all() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules");
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(files - 1, RULES.len());
        for rule in RULES {
            assert!(!rule.causes.is_empty() && rule.threshold.len() > 20 && rule.refuted_by.len() > 20);
        }
    }

    #[test]
    fn every_class_of_cause_has_a_rule() {
        for cause in Cause::ALL {
            assert!(RULES.iter().any(|rule| rule.causes.contains(cause)), "{}", cause.name());
        }
    }
}
