//! `lines`: where in the code calls were made, by the innermost line of the program's own.

use crate::chosen::{Chosen, Subject};
use crate::evidence::row::Row;
use crate::sampled::{Wanted, each_kept};
use crate::since::span;
use crate::{QueryError, Rows};
use gpuwhy_store::{Reader, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinesRequest {
    /// Only this process.
    pub pid: Option<u32>,
    /// Only the last so long, as `90s` or `5m`, back from the newest event.
    pub since: Option<String>,
    /// From this time on, unix time in nanoseconds.
    pub from_ns: Option<u64>,
    /// Before this time, unix time in nanoseconds.
    pub to_ns: Option<u64>,
    /// At most so many rows.
    pub limit: Option<usize>,
    /// Only this operation.
    pub op: Option<String>,
}

const SUBJECT: Subject = Subject { what: "kept calls with stacks", hint: "trace with --stacks auto or on" };

const COLUMNS: [&str; 10] =
    ["pid", "process", "op", "kind", "function", "file", "line", "kept", "ms", "max_us"];

/// Kept calls by operation and line: the innermost Python line, else the innermost native function. Most time first. Of
/// very many calls a sample is looked at; the coverage's notes say so.
pub fn lines(reader: &Reader, request: &LinesRequest) -> Result<Rows, QueryError> {
    let chosen = Chosen::new(reader, request.pid, request.since.as_deref(), request.limit)?
        .between(request.from_ns, request.to_ns)?;
    let span = span(reader, request.since.as_deref(), None, None)?;
    let mut by_stack: HashMap<(u32, String, i64), Sum> = HashMap::new();
    let wanted = Wanted { span, pid: request.pid, op: request.op.as_deref() };
    let all = each_kept(reader, wanted, |call| {
        let Some(stack_id) = call.stack_id.filter(|_| !call.of_driver) else { return };
        let sum = by_stack.entry((call.pid, call.op.to_string(), stack_id)).or_default();
        sum.add(call.kept, call.kept * call.duration_ns as f64, call.duration_ns);
    })?;
    let mut places: HashMap<i64, Option<Line>> = HashMap::new();
    let mut by_line: BTreeMap<(u32, String, Line), Sum> = BTreeMap::new();
    for ((pid, op, stack_id), sum) in by_stack {
        let place = match places.entry(stack_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(own_line(reader, stack_id)?),
        };
        if let Some(line) = place {
            let whole = by_line.entry((pid, op, line.clone())).or_default();
            whole.add(sum.kept, sum.ns, sum.longest_ns);
        }
    }
    let mut lines: Vec<((u32, String, Line), Sum)> = by_line.into_iter().collect();
    lines.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns).then_with(|| a.0.cmp(&b.0)));
    let comms: HashMap<u32, String> =
        reader.processes()?.into_iter().map(|process| (process.pid, process.comm)).collect();
    let rows = lines.into_iter().map(|((pid, op, line), sum)| {
        let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
        vec![
            Value::Integer(pid.into()),
            text(comms.get(&pid).cloned()),
            Value::Text(op),
            Value::Text(line.kind),
            text(line.function),
            text(line.file),
            line.line.map_or(Value::Null, Value::Integer),
            Value::Integer(sum.kept.round() as i64),
            Value::Real(sum.ns / 1e6),
            Value::Real(sum.longest_ns as f64 / 1e3),
        ]
    });
    let mut answer = chosen.answer(SUBJECT, chosen.cut(&COLUMNS, rows.collect()))?;
    if !all {
        answer.coverage.notes.push("of more kept calls than are read at once a sample was looked at".into());
    }
    Ok(answer)
}

#[derive(Debug, Default)]
struct Sum {
    kept: f64,
    ns: f64,
    longest_ns: u64,
}

impl Sum {
    fn add(&mut self, kept: f64, ns: f64, longest_ns: u64) {
        self.kept += kept;
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(longest_ns);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    kind: String,
    function: Option<String>,
    file: Option<String>,
    line: Option<i64>,
}

/// Of the program's own code.
fn own_line(reader: &Reader, stack_id: i64) -> Result<Option<Line>, QueryError> {
    let sql = "SELECT kind, function, file, line FROM frames WHERE stack_id = ?1 AND (kind = 'python' OR function IS NOT NULL) \
               ORDER BY kind <> 'python', depth LIMIT 1";
    let mut found = None;
    reader.select_each(sql, &[stack_id.into()], |row| {
        let row = Row::of(row);
        found = Some(Line {
            kind: row.text(0),
            function: row.maybe_text(1),
            file: row.maybe_text(2),
            line: row.signed(3),
        });
    })?;
    Ok(found)
}
