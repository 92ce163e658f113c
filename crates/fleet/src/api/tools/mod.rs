//! The registry: every tool once, with its schemas, what it needs, and its handler. HTTP, MCP and OpenAPI are made from it.

mod analysis;
mod autopsy;
mod collectives;
mod cost;
mod history;
mod nodes;
mod outliers;
mod status;

use super::Work;
use crate::store::Rows;
use crate::tokens::Scope;
use gpuwhy_http::{AskError, Kind};
use gpuwhy_model::Question;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What a tool needs and does.
#[derive(Clone, Copy)]
pub struct Run {
    pub scope: Scope,
    pub(super) run: fn(&Work<'_>, Value) -> Result<Value, AskError>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Run").field(&self.scope).finish()
    }
}

pub type Tool = Question<Run>;

/// A row of the table from a typed handler.
macro_rules! tool {
    ($name:literal, $scope:ident, $handler:path, $about:literal, $next:literal) => {
        Tool {
            name: $name,
            tool: $name,
            about: $about,
            next: $next,
            request: |schemas| request_schema($handler, schemas),
            answer: |schemas| answer_schema($handler, schemas),
            run: Run { scope: Scope::$scope, run: |work, request| run($handler, work, request) },
        }
    };
}

pub static TOOLS: &[Tool] = &[
    tool!(
        "fleet.cluster.find_outlier_nodes",
        Read,
        outliers::find,
        "which ranks drag the others now, by how much, by which signal and cause; and for any metric, who is beyond the robust \
         threshold of its cohort",
        "fleet.cluster.collectives with the `job_id` says who waited for whom; fleet.cluster.get_cost what it cost"
    ),
    tool!(
        "fleet.cluster.collectives",
        Read,
        collectives::collectives,
        "collectives across ranks: arrival order and lateness by rank, who waited for whom and how long, and by how much the \
         nodes' clocks differ, with the bound of the error",
        "fleet.cluster.hang_autopsy if a collective does not end; fleet.cluster.get_cost what the waiting cost"
    ),
    tool!(
        "fleet.cluster.hang_autopsy",
        Read,
        autopsy::autopsy,
        "collectives that do not end: which rank is missing or calls another thing, with its stack and its last findings, and \
         what the others wait in",
        "fleet.cluster.event_history with the culprit's `rank` shows what it reported last"
    ),
    tool!(
        "fleet.cluster.get_cost",
        Read,
        cost::get_cost,
        "GPU-hours and dollars lost to stragglers and stalls, by cluster, job, rank and cause, and what would be saved if a rank \
         came with the others, with its interval",
        "fleet.cluster.find_outlier_nodes says which ranks; fleet.cluster.run_analysis `causes` why"
    ),
    tool!(
        "fleet.cluster.event_history",
        Read,
        history::event_history,
        "what nodes reported, the newest first: data points, log records, spans; or their findings",
        "fleet.cluster.run_analysis sums it up"
    ),
    tool!(
        "fleet.cluster.nodes",
        Read,
        nodes::nodes,
        "the nodes that report, when each first and last did, and what it says of itself",
        "fleet.cluster.find_outlier_nodes compares their ranks"
    ),
    tool!(
        "fleet.cluster.run_analysis",
        Read,
        analysis::run_analysis,
        "one of the prepared analyses by name, or SQL that only reads (SQL needs a token with the scope `sql` for all clusters)",
        "fleet.cluster.event_history shows the rows behind it"
    ),
    tool!(
        "fleet.server.status",
        Admin,
        status::status,
        "what the server counted since it began, and who asked it what lately (needs a token with the scope `admin` for all clusters)",
        "fleet.cluster.nodes says who pushes"
    ),
];

/// `POST /api/v1/sql`.
pub(super) static SQL: Tool = tool!(
    "sql",
    Sql,
    analysis::sql,
    "SQL that only reads, in DuckDB's dialect, over events, collectives, findings, nodes and schema_version",
    "fleet.cluster.run_analysis has prepared ones"
);

type Handler<Q, A> = fn(&Work<'_>, &Q) -> Result<A, AskError>;

fn request_schema<Q: JsonSchema, A>(_handler: Handler<Q, A>, schemas: &mut SchemaGenerator) -> Schema {
    schemas.root_schema_for::<Q>()
}

fn answer_schema<Q, A: JsonSchema>(_handler: Handler<Q, A>, schemas: &mut SchemaGenerator) -> Schema {
    schemas.root_schema_for::<A>()
}

fn run<Q: DeserializeOwned, A: Serialize>(
    handler: Handler<Q, A>,
    work: &Work<'_>,
    request: Value,
) -> Result<Value, AskError> {
    let request = if request.is_null() { Value::Object(Map::new()) } else { request };
    let request: Q = serde_json::from_value(request)
        .map_err(|error| AskError::new(Kind::Usage, format!("wrong request: {error}")))?;
    serde_json::to_value(handler(work, &request)?)
        .map_err(|error| AskError::new(Kind::Failed, format!("the answer is no JSON: {error}")))
}

/// Rows, and what they cover.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Table {
    /// One object a row, by column.
    rows: Vec<Map<String, Value>>,
    /// There are more.
    truncated: bool,
    coverage: Coverage,
}

/// What an answer is of.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(super) struct Coverage {
    /// From when on rows were looked at; nothing for all of them.
    from_ns: Option<i64>,
    /// Until before when.
    to_ns: Option<i64>,
    /// What is missing, in words.
    notes: Vec<String>,
}

impl Table {
    fn new(rows: Rows, coverage: Coverage) -> Table {
        Table { truncated: rows.truncated, rows: rows.objects(), coverage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_s_tools_are_all_there_and_each_describes_itself() {
        let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        for wanted in [
            "event_history",
            "find_outlier_nodes",
            "run_analysis",
            "get_cost",
            "collectives",
            "hang_autopsy",
            "nodes",
        ] {
            assert!(names.contains(&format!("fleet.cluster.{wanted}").as_str()), "{wanted}");
        }
        for tool in TOOLS {
            let request = gpuwhy_http::schemas::request(tool);
            let fields = request["properties"].as_object().unwrap();
            for (name, field) in fields {
                assert!(
                    field.get("description").is_some() || field.get("$ref").is_some(),
                    "{} {name}",
                    tool.name
                );
            }
        }
    }
}
