//! Questions that are asked often, with their SQL: `fleet.cluster.run_analysis` runs them, the guide shows them, and they run
//! in `duckdb` on a copy of the store as well.

/// A question with its SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Analysis {
    pub name: &'static str,
    pub about: &'static str,
    pub sql: &'static str,
}

pub static ANALYSES: &[Analysis] = &[
    Analysis {
        name: "metrics",
        about: "every metric: how many points of how many nodes, from when until when",
        sql: "SELECT cluster_id, metric_name, kind, count(*) AS points, count(DISTINCT node_id) AS nodes,\n       \
              min(timestamp_ns) AS first_ns, max(timestamp_ns) AS last_ns\n\
              FROM events GROUP BY ALL ORDER BY cluster_id, points DESC",
    },
    Analysis {
        name: "slowest_ranks",
        about: "ranks by the host time of a step that is their own, the slowest first",
        sql: "SELECT cluster_id, job_id, node_id, rank, median(value_double) AS own_seconds, count(*) AS points\n\
              FROM events WHERE metric_name = 'gpuwhy.rank.own_seconds'\n\
              GROUP BY ALL ORDER BY own_seconds DESC",
    },
    Analysis {
        name: "causes",
        about: "what the ranks of each job lose time to, as shares of their time",
        sql: "SELECT cluster_id, job_id, regexp_extract(attrs, '\"class\":\"([^\"]*)\"', 1) AS class, avg(value_double) AS share\n\
              FROM events WHERE metric_name = 'gpuwhy.rank.blame_ratio'\n\
              GROUP BY ALL ORDER BY cluster_id, job_id, share DESC",
    },
    Analysis {
        name: "idle",
        about: "how much of the time no GPU work was queued, by node",
        sql: "SELECT cluster_id, node_id, avg(value_double) AS idle_share, count(DISTINCT rank) AS ranks\n\
              FROM events WHERE metric_name = 'gpuwhy.rank.idle_ratio'\n\
              GROUP BY ALL ORDER BY idle_share DESC",
    },
    Analysis {
        name: "silent_nodes",
        about: "nodes that have not spoken for a minute before the newest word",
        sql: "SELECT cluster_id, node_id, last_seen_ns, (newest_ns - last_seen_ns) / 1e9 AS silent_seconds\n\
              FROM nodes, (SELECT max(last_seen_ns) AS newest_ns FROM nodes)\n\
              WHERE newest_ns - last_seen_ns > 60000000000 ORDER BY silent_seconds DESC",
    },
    Analysis {
        name: "findings_by_class",
        about: "findings of nodes and of the fleet, counted by class",
        sql: "SELECT cluster_id, source, class, count(*) AS findings, max(timestamp_ns) AS last_ns, any_value(title) AS example\n\
              FROM findings GROUP BY ALL ORDER BY findings DESC",
    },
    Analysis {
        name: "slow_collectives",
        about: "collectives by the time between the first rank's arrival and the last's, as the nodes' clocks have it",
        sql: "SELECT cluster_id, job_id, comm_id_hash, seq, any_value(op) AS op, count(DISTINCT rank) AS ranks,\n       \
              (max(timestamp_ns) - min(timestamp_ns)) / 1e6 AS spread_ms, arg_max(rank, timestamp_ns) AS last_rank\n\
              FROM collectives GROUP BY ALL HAVING count(DISTINCT rank) > 1 ORDER BY spread_ms DESC",
    },
];

pub(super) fn find(name: &str) -> Option<&'static Analysis> {
    ANALYSES.iter().find(|analysis| analysis.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TOOLS;

    #[test]
    fn the_guide_has_every_analysis_and_every_tool() {
        let guide = include_str!("../../../../docs/fleet.md");
        for analysis in ANALYSES {
            let shown = format!("`{}`: {}.\n\n```sql\n{};\n```", analysis.name, analysis.about, analysis.sql);
            assert!(guide.contains(&shown), "docs/fleet.md lacks\n{shown}");
        }
        for tool in TOOLS {
            assert!(guide.contains(&format!("`{}`", tool.name)), "docs/fleet.md lacks {}", tool.name);
        }
    }
}
