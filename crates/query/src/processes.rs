//! `processes`: the traced processes.

use crate::{QueryError, Rows};
use gpuwhy_store::{Limits, Reader, Value};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessesRequest {
    pub pid: Option<u32>,
    pub limit: Option<usize>,
}

/// In the order in which they started.
pub fn processes(reader: &Reader, request: &ProcessesRequest) -> Result<Rows, QueryError> {
    let (clause, values) = match request.pid {
        Some(pid) => (" WHERE pid = ?", vec![Value::Integer(pid.into())]),
        None => ("", Vec::new()),
    };
    let mut limits = Limits::default();
    limits.rows = request.limit.unwrap_or(limits.rows);
    let sql = format!("SELECT * FROM processes{clause} ORDER BY start_ns, pid");
    let answer = reader.select(&sql, &values, &limits)?;
    if answer.rows.is_empty() && limits.rows > 0 {
        let which = request.pid.map(|pid| format!(" {pid}")).unwrap_or_default();
        return Err(QueryError::NoData(format!("the trace has no process{which}; nothing was traced then")));
    }
    Ok(Rows::new(answer, reader.coverage(None)?))
}
