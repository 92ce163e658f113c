//! What requests have in common: which rows, of which clusters, of what time.

use crate::store::{Filter, Stop, Store};
use crate::tokens::Grant;
use gpuwhy_http::{AskError, Kind};
use gpuwhy_model::units::parse_duration;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which rows are meant.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Of this cluster; all that the token may see otherwise.
    pub(super) cluster_id: Option<String>,
    /// Of this node.
    pub(super) node_id: Option<String>,
    /// Of this job.
    pub(super) job_id: Option<String>,
    /// Of this rank.
    pub(super) rank: Option<i32>,
    /// The last so long, as 90s, 5m, 2h, 1d, counted back from the newest row.
    pub(super) since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub(super) from_ns: Option<i64>,
    /// Until before this time, unix time in nanoseconds.
    pub(super) to_ns: Option<i64>,
}

/// A cluster that the token does not cover is as one that is not there: no row is of it.
pub(super) fn clusters(grant: &Grant, named: Option<&str>) -> Option<Vec<String>> {
    match (named, &grant.clusters) {
        (Some(named), _) if grant.covers(named) => Some(vec![named.into()]),
        (Some(_), _) => Some(Vec::new()),
        (None, Some(clusters)) => Some(clusters.iter().cloned().collect()),
        (None, None) => None,
    }
}

impl Which {
    /// `usual` is how far back it goes where nothing is said.
    pub(super) fn filter(
        &self,
        grant: &Grant,
        store: &dyn Store,
        usual: Option<&str>,
        stop: &Stop,
    ) -> Result<Filter, AskError> {
        let mut filter = Filter {
            clusters: clusters(grant, self.cluster_id.as_deref()),
            node: self.node_id.clone(),
            job: self.job_id.clone(),
            rank: self.rank,
            from_ns: self.from_ns,
            to_ns: self.to_ns,
            ..Filter::default()
        };
        let bounded = self.from_ns.is_some() || self.to_ns.is_some();
        if let Some(since) = self.since.as_deref().or(usual.filter(|_| !bounded)) {
            let since =
                parse_duration(since).map_err(|why| AskError::new(Kind::Usage, format!("since: {why}")))?;
            let of = Filter { clusters: filter.clusters.clone(), ..Filter::default() };
            let newest = store.newest_ns(&of, stop).map_err(|error| super::asking::of_store(&error))?;
            let from = newest.unwrap_or(0).saturating_sub(since.as_nanos().min(i64::MAX as u128) as i64);
            filter.from_ns = Some(filter.from_ns.unwrap_or(from).max(from));
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_of_others_is_as_one_that_is_not_there() {
        let tenant = Grant {
            clusters: Some(["a".to_string()].into()),
            scopes: Default::default(),
            short: String::new(),
        };
        assert_eq!(clusters(&tenant, None), Some(vec!["a".to_string()]));
        assert_eq!(clusters(&tenant, Some("a")), Some(vec!["a".to_string()]));
        assert_eq!(clusters(&tenant, Some("b")), clusters(&tenant, Some("no such")));
        let all = Grant { clusters: None, ..tenant };
        assert_eq!((clusters(&all, None), clusters(&all, Some("b"))), (None, Some(vec!["b".to_string()])));
    }
}
