//! `processes`: the traced processes.

use crate::{QueryError, Rows};
use gpuwhy_store::{Limits, Reader, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessesRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only those of this pod, job, container, ...
    pub tenant: Option<String>,
    /// At most so many rows.
    pub limit: Option<usize>,
}

/// In the order in which they started, with what is known of their containers.
pub fn processes(reader: &Reader, request: &ProcessesRequest) -> Result<Rows, QueryError> {
    let pid = request.pid.map(|pid| ("p.pid = ?", Value::Integer(pid.into())));
    let tenant = request.tenant.clone().map(|tenant| ("p.tenant = ?", Value::Text(tenant)));
    let (clauses, values): (Vec<&str>, Vec<Value>) = pid.into_iter().chain(tenant).unzip();
    let clause = if clauses.is_empty() { String::new() } else { format!(" WHERE {}", clauses.join(" AND ")) };
    let mut limits = Limits::default();
    limits.rows = request.limit.unwrap_or(limits.rows);
    let sql = format!(
        "SELECT p.*, c.runtime, c.name AS container, c.image, c.pod_uid, c.qos, c.labels FROM processes p \
         LEFT JOIN containers c ON c.container_id = p.container_id{clause} ORDER BY start_ns, pid"
    );
    let answer = reader.select(&sql, &values, &limits)?;
    if answer.rows.is_empty() && limits.rows > 0 {
        let which = request.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
        let owner = request.tenant.as_ref().map(|tenant| format!(" of {tenant}")).unwrap_or_default();
        return Err(QueryError::NoData(format!(
            "the trace has no process{which}{owner}; nothing was traced then"
        )));
    }
    Ok(Rows::new(answer, reader.coverage(None)?))
}
