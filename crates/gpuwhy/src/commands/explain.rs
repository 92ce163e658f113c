//! `gpuwhy explain`: why the GPU stalled.

use crate::cli::ExplainOptions;
use crate::explanation::{self, Style};
use crate::failure::Failure;
use crate::paths;
use gpuwhy_query::{ExplainRequest, explain};
use gpuwhy_store::Reader;
use std::io::Write;

pub(crate) fn run(options: &ExplainOptions) -> Result<(), Failure> {
    let file = options.file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
    let reader = Reader::open(&file)?;
    let request = ExplainRequest {
        pid: options.pid,
        op: options.op.clone(),
        since: options.since.map(|since| format!("{}s", since.as_secs_f64())),
        from_ns: options.from,
        to_ns: options.to,
        per_process: options.per_process,
    };
    let explained = explain(&reader, &request)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if options.json {
        serde_json::to_writer_pretty(&mut out, &explained)?;
        writeln!(out)?;
    } else {
        explanation::write(&explained, Style::of_stdout(options.per_process), &mut out)?;
        if let Some(tail) = options.tail {
            explanation::write_tail(&explained.tail, tail.name(), &mut out)?;
        }
    }
    Ok(out.flush()?)
}
