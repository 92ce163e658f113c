//! `gpuwhy explain`: why the GPU stalled.

use crate::cli::ExplainOptions;
use crate::explanation::{self, Style};
use crate::failure::Failure;
use crate::nodes::{Asked, WithNodes};
use crate::paths;
use gpuwhy_nodes::Part;
use gpuwhy_query::{ExplainRequest, explain};
use std::io::Write;
use std::time::Duration;

pub(crate) fn run(options: &ExplainOptions) -> Result<(), Failure> {
    let asked = match (&options.file, options.fan.nodes.is_empty()) {
        (Some(_), false) => return Err(Failure::both()),
        (None, false) => Asked::nodes(&options.fan, part(options.since, options.from))?,
        (file, true) => {
            let file = file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
            Asked::file(&file)?
        }
    };
    let request = ExplainRequest {
        pid: options.pid,
        op: options.op.clone(),
        since: options.since.map(|since| format!("{}s", since.as_secs_f64())),
        from_ns: options.from,
        to_ns: options.to,
        per_process: options.per_process,
    };
    let mut explained = explain(&asked.reader, &request).map_err(|error| asked.failure(error))?;
    if let Some(names) = asked.names() {
        explained.trace.file = names;
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        let answer = WithNodes { answer: &explained, nodes: asked.nodes.as_deref() };
        serde_json::to_writer_pretty(&mut out, &answer)?;
        writeln!(out)?;
    } else {
        let style = Style { nodes: asked.nodes.is_some(), ..Style::of_stdout(options.per_process) };
        explanation::write(&explained, style, &mut out)?;
        if let Some(tail) = options.tail {
            explanation::write_tail(&explained.tail, tail.name(), &mut out)?;
        }
    }
    out.flush()?;
    if !options.json {
        asked.tell();
    }
    Ok(())
}

/// What has to be fetched of other nodes for the time that is asked about.
pub(super) fn part(since: Option<Duration>, from: Option<u64>) -> Part {
    match (since, from) {
        (Some(since), _) => Part::Since(since),
        (None, Some(from)) => Part::From(from),
        (None, None) => Part::All,
    }
}
