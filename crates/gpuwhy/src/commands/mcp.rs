//! `gpuwhy mcp`: a trace for AI assistants.

use super::dashboard::access;
use super::host::{HOST, serve_only};
use super::sql_worker;
use crate::cli::McpOptions;
use crate::failure::Failure;
use crate::log::log;
use crate::paths;
use gpuwhy_serve::{HttpOptions, Questions, serve_http, serve_stdio};
use std::io::{IsTerminal, Write};

/// The trace need not be there yet: an assistant is told so by each tool that needs one.
pub(crate) fn run(options: &McpOptions) -> Result<(), Failure> {
    let file = options.file.clone().or_else(|| options.db.clone()).unwrap_or_else(paths::default_trace);
    paths::mention_roots(&file, "mcp");
    let questions = Questions::new(file.clone(), HOST).answered_in(sql_worker::worker());
    let Some(address) = &options.http else {
        if options.access.tls_cert.is_some() || options.access.token_file.is_some() || options.access.open {
            return Err(Failure::Usage("TLS and tokens are for --http ADDR; give that, too".into()));
        }
        if std::io::stdin().is_terminal() {
            log!("waiting for an assistant on standard input; put this command into its list of MCP servers");
        }
        serve_only(&file);
        return Ok(serve_stdio(questions)?);
    };
    let (tls, tokens) = access(&options.access)?;
    let hosts = options.access.allow_host.clone();
    let open = options.access.open;
    let http = HttpOptions { address: address.clone(), tls, tokens, open, page: false, hosts };
    Ok(serve_http(questions, http, |at| {
        // Nobody reads it: it is served all the same.
        let token = at.token.as_ref();
        let token = token.map(|token| format!("; clients send Authorization: Bearer {token}"));
        let token = token.unwrap_or_default();
        let _ = writeln!(std::io::stdout(), "MCP at {}/mcp{token}; Ctrl-C ends it", at.address);
        serve_only(&file);
    })?)
}
