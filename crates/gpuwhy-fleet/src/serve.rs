//! `gpuwhy-fleet serve`.

use crate::cli::ServeOptions;
use crate::failure::Failure;
use gpuwhy_fleet_core::{DuckOptions, Limits, Rates, Retention, Serve, Tls, Tokens, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::path::Path;

pub(crate) fn run(options: &ServeOptions) -> Result<(), Failure> {
    if options.store != "duckdb" {
        let name = if options.store.starts_with("clickhouse+") { "ClickHouse" } else { &options.store };
        let sentence = format!(
            "this version cannot keep its data in {name}; leave --store out and it is kept in DuckDB, under --data"
        );
        return Err(Failure::Usage(sentence));
    }
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ if options.insecure_no_tls => None,
        _ => {
            let sentence =
                "TLS is needed: give --tls-cert and --tls-key, or --insecure-no-tls where nobody can listen";
            return Err(Failure::Usage(sentence.into()));
        }
    };
    more_files();
    let megabytes = (options.store_memory >> 20).max(64);
    let served = Serve {
        data: options.data.clone(),
        grpc: options.otlp_grpc.clone(),
        http: options.otlp_http.clone(),
        api: options.api.clone(),
        tls,
        tokens: Tokens::read(&options.tokens)?,
        limits: Limits { memory_bytes: options.push_memory as usize, ..Limits::default() },
        keep: Retention { age: options.keep, bytes: options.max_size },
        rates: rates(options.rates.as_deref())?,
        // Two statements of others at a time take as much again.
        duck: DuckOptions {
            memory: format!("{megabytes}MiB"),
            sql_memory_bytes: (megabytes << 20) / 2,
            ..DuckOptions::default()
        },
    };
    Ok(serve(&served, |at| {
        // Nobody reads it: it is served all the same.
        let _ = writeln!(
            std::io::stdout(),
            "OTLP at {} (gRPC) and {} (HTTP); dashboard and questions at {}; Ctrl-C ends it",
            at.grpc,
            at.http,
            at.api
        );
    })?)
}

/// Every node keeps a connection open, and the usual limit is a thousand files.
fn more_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, so many connections wait to be let in.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// What a GPU-hour costs; nothing where no file is named.
fn rates(path: Option<&Path>) -> Result<Rates, Failure> {
    let Some(path) = path else { return Ok(Rates::default()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Failed(format!("the rates {} cannot be read: {error}", path.display())))?;
    Rates::parse(&text).map_err(|errors| {
        let print_out: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::Failed(format!("{}: {}", path.display(), print_out.join("; ")))
    })
}
