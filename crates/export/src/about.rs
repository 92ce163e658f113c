//! What goes into every export beside the data: where it comes from, and what it does not cover.

use crate::text::name;
use crate::{ExportError, Source};
use gpuwhy_model::{Coverage, Span};
use gpuwhy_store::Maker;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct About {
    /// Who wrote this, as `gpuwhy 0.1.0`.
    pub(crate) exporter: String,
    pub(crate) trace: String,
    pub(crate) maker: Maker,
    pub(crate) schema: String,
    /// Of what was exported, unix time.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) pid: Option<u32>,
    pub(crate) nodes: Vec<String>,
    pub(crate) coverage: Coverage,
}

impl About {
    pub(crate) fn of(source: &Source<'_>) -> Result<About, ExportError> {
        let reader = source.reader;
        let whole = reader.span()?.unwrap_or(Span { start_ns: 0, end_ns: 0 });
        let mut nodes: Vec<String> = Vec::new();
        for session in reader.sessions()? {
            let host = name(&session.info.host).into_owned();
            if !host.is_empty() && !nodes.contains(&host) {
                nodes.push(host);
            }
        }
        let mut coverage = reader.coverage(source.filter.from_ns)?;
        let Coverage { degraded, unattached, notes, missing, .. } = &mut coverage;
        for text in [degraded, unattached, notes, missing].into_iter().flatten() {
            *text = name(text).into_owned();
        }
        let path = reader.path();
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Ok(About {
            exporter: format!("gpuwhy {}", env!("CARGO_PKG_VERSION")),
            trace: name(&file).into_owned(),
            maker: reader.origin().maker,
            schema: reader.origin().schema.clone(),
            start_ns: source.filter.from_ns.unwrap_or(whole.start_ns).max(whole.start_ns),
            end_ns: source.filter.to_ns.unwrap_or(whole.end_ns).min(whole.end_ns),
            pid: source.filter.pid,
            nodes,
            coverage,
        })
    }

    /// Each thing it says as a name and a text.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else { return Vec::new() };
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let mut lines = Vec::new();
        for (field, value) in fields {
            match value {
                serde_json::Value::Object(inner) => {
                    lines.extend(
                        inner.into_iter().map(|(key, value)| (format!("{field}.{key}"), text(value))),
                    );
                }
                serde_json::Value::Null => {}
                other => lines.push((field, text(other))),
            }
        }
        lines
    }
}
