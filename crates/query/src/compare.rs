//! `compare`: two traces, or two times of one, operation by operation: what changed beyond noise.

use crate::compare_steps::{StepChange, changes};
use crate::evidence::{Scope, gather, threads};
use crate::{ExplainRequest, QueryError, explain};
use gpuwhy_cause::compare as compared;
use gpuwhy_cause::{Comparison, Evidence, StepTree};
use gpuwhy_model::{Coverage, Span};
use gpuwhy_store::Reader;
use serde::Serialize;

/// A trace, or a part of it.
#[derive(Debug)]
pub struct Side<'a> {
    pub reader: &'a Reader,
    /// Unix time in nanoseconds.
    pub from_ns: Option<u64>,
    pub to_ns: Option<u64>,
}

/// Its fields are those of `compare --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub a: SideInShort,
    pub b: SideInShort,
    /// Steps of processes that both have, those that got slower by most first.
    pub steps: Vec<StepChange>,
    #[serde(flatten)]
    pub comparison: Comparison,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SideInShort {
    pub file: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub coverage: Coverage,
}

pub fn compare(a: &Side<'_>, b: &Side<'_>) -> Result<Compared, QueryError> {
    let (left, right) = (evidence(a)?, evidence(b)?);
    Ok(Compared {
        a: in_short(a, &left),
        b: in_short(b, &right),
        steps: changes(&steps(a)?, &steps(b)?),
        comparison: compared(&left, &right),
    })
}

/// What its steps are made of, as `explain` finds them; none where there is nothing to explain.
fn steps(side: &Side<'_>) -> Result<Vec<StepTree>, QueryError> {
    let request = ExplainRequest { from_ns: side.from_ns, to_ns: side.to_ns, ..ExplainRequest::default() };
    match explain(side.reader, &request) {
        Ok(explained) => Ok(explained.steps),
        Err(QueryError::NoData(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn evidence(side: &Side<'_>) -> Result<Evidence, QueryError> {
    let file = side.reader.path().display();
    let span = side.reader.span()?;
    let span =
        span.ok_or_else(|| QueryError::NoData(format!("{file} is empty: there is nothing to compare")))?;
    let asked = Span {
        start_ns: side.from_ns.unwrap_or(span.start_ns).max(span.start_ns),
        end_ns: side.to_ns.unwrap_or(span.end_ns).min(span.end_ns),
    };
    let mut evidence = threads(side.reader, asked)?;
    gather(side.reader, None, &Scope::All, false, &mut evidence)?;
    if evidence.sums.is_empty() && evidence.foreign.is_empty() {
        return Err(QueryError::NoData(format!(
            "{file} has no calls in that time: trace while a process uses the GPU"
        )));
    }
    Ok(evidence)
}

fn in_short(side: &Side<'_>, evidence: &Evidence) -> SideInShort {
    SideInShort {
        file: side.reader.path().display().to_string(),
        start_ns: evidence.span.start_ns,
        end_ns: evidence.span.end_ns,
        coverage: evidence.coverage.clone(),
    }
}
