//! `kernels`: the functions that were launched, by name.

use crate::chosen::{Chosen, Subject, process_of};
use crate::estimates::{Factors, scaled};
use crate::since::span;
use crate::{QueryError, Rows};
use gpuwhy_model::CallClass;
use gpuwhy_store::Reader;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KernelsBy {
    /// The host's time in the launches.
    #[default]
    Time,
    Launches,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KernelsRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event: kernels that were first seen then. Launches are counted over
    /// the whole trace.
    pub since: Option<String>,
    /// What comes first.
    pub by: KernelsBy,
    /// At most so many rows.
    pub limit: Option<usize>,
}

const SUBJECT: Subject = Subject { what: "kernels", hint: "trace while a process launches some" };

/// Those without a name are called by their handle. Launches in graphs are counted apart: they cost no launch.
pub fn kernels(reader: &Reader, request: &KernelsRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?;
    let (clause, values) = chosen.clause("first_ns");
    let order = match request.by {
        KernelsBy::Time => "k.launch_ns DESC, k.launches DESC",
        KernelsBy::Launches => "ifnull(k.launches, 0) + ifnull(g.launches, 0) DESC",
    };
    // Launches that were watched in slices of time stand for those that were not.
    let within = span(reader, None, None, None)?;
    let factors = Factors::read(reader, within, CallClass::Launches, "k.pid")?;
    let counted = "ifnull(k.launches, 0)";
    let launches = scaled(factors.as_ref(), counted);
    let interval = Factors::interval_columns(factors.as_ref(), counted, "launches");
    let factor = factors.map_or_else(|| "1".into(), |factors| factors.value);
    let sql = format!(
        "SELECT k.pid AS pid, {}, ifnull(k.name, k.handle) AS kernel, {launches} AS launches, \
         ifnull(g.launches, 0) AS in_graphs, k.launch_ns * {factor} / 1e6 AS launch_ms, \
         k.launch_ns / 1e3 / nullif(k.launches, 0) AS mean_launch_us, k.handle AS handle, k.module AS module, \
         k.first_ns AS first_ns{interval} FROM (SELECT * FROM kernels{clause}) k LEFT JOIN \
         (SELECT pid, handle, sum(launches) AS launches FROM graph_kernels GROUP BY pid, handle) g \
         ON g.pid = k.pid AND g.handle = k.handle ORDER BY {order}, k.pid, kernel, k.handle",
        process_of("k")
    );
    chosen.rows(SUBJECT, &sql, &values)
}
