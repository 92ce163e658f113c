//! `gpuwhy dashboard`: a trace for browsers and programs.

use super::host::HOST;
use super::sql_worker;
use crate::cli::{DashboardOptions, DoorOptions};
use crate::failure::Failure;
use crate::paths;
use gpuwhy_serve::{HttpOptions, Questions, ServeError, Tls, Tokens, serve_http};
use gpuwhy_store::Reader;
use std::io::Write;

pub(crate) fn run(options: &DashboardOptions) -> Result<(), Failure> {
    let named = options.file.clone().or_else(|| options.db.clone());
    let file = named.clone().unwrap_or_else(paths::default_trace);
    // The usual file may be written later; one that was named is meant.
    if named.is_some() {
        Reader::open(&file)?;
    }
    let (tls, tokens) = door(&options.door)?;
    let hosts = options.door.allow_host.clone();
    let open = options.door.open;
    let http = HttpOptions { address: options.listen.clone(), tls, tokens, open, page: true, hosts };
    let shown = file.display().to_string();
    Ok(serve_http(Questions::new(file, HOST).answered_in(sql_worker::worker()), http, |at| {
        // In the fragment, which browsers send to nobody.
        let token = at.token.as_ref().map(|token| format!("#token={token}")).unwrap_or_default();
        // Nobody reads it: it is served all the same.
        let _ = writeln!(std::io::stdout(), "{shown} at {}/{token}; Ctrl-C ends it", at.address);
    })?)
}

/// The certificate, and who may ask.
pub(crate) fn door(options: &DoorOptions) -> Result<(Option<Tls>, Tokens), ServeError> {
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ => None,
    };
    let variable = std::env::var("GPUWHY_TOKEN").ok();
    Ok((tls, Tokens::read(options.token_file.as_deref(), variable.as_deref())?))
}
