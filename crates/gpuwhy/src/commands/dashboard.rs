//! `gpuwhy dashboard`: a trace for browsers and programs.

use super::host::{HOST, serve_only};
use super::sql_worker;
use crate::cli::{AccessOptions, DashboardOptions};
use crate::failure::Failure;
use crate::log::log;
use crate::paths;
use gpuwhy_serve::{HttpOptions, Questions, ServeError, Tls, Tokens, serve_http};
use gpuwhy_store::Reader;
use std::io::Write;
use tempfile::NamedTempFile;

pub(crate) fn run(options: &DashboardOptions) -> Result<(), Failure> {
    let named = options.file.clone().or_else(|| options.db.clone());
    let file = named.clone().unwrap_or_else(paths::default_trace);
    // The usual file may be written later; one that was named is meant.
    if named.is_some() {
        Reader::open(&file)?;
    }
    paths::mention_roots(&file, "dashboard");
    let (tls, tokens) = access(&options.access)?;
    let hosts = options.access.allow_host.clone();
    let open = options.access.open;
    let address = options.port.map_or_else(|| options.listen.clone(), |port| format!("127.0.0.1:{port}"));
    let http = HttpOptions { address, tls, tokens, open, page: true, hosts };
    // Goes when the server ends.
    let mut redirect = None;
    let (shown, trace) = (file.display().to_string(), file.clone());
    let served = serve_http(Questions::new(file, HOST).answered_in(sql_worker::worker()), http, |at| {
        // In the fragment, which browsers send to nobody.
        let token = at.token.as_ref().map(|token| format!("#token={token}")).unwrap_or_default();
        // Nobody reads it: it is served all the same.
        let link = format!("{}/{token}", at.address);
        let _ = writeln!(std::io::stdout(), "{shown} at {link}; Ctrl-C ends it");
        if options.browse {
            match browse(&link) {
                Ok(page) => redirect = Some(page),
                Err(why) => log!("no browser was opened ({why}); open the link yourself"),
            }
        }
        // After the browser, which is free to do more, and before anybody is answered.
        serve_only(&trace);
    });
    drop(redirect);
    Ok(served?)
}

/// Starts a browser on a page that leads to the link: on a command line every user of this host could read its token.
fn browse(link: &str) -> std::io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new().prefix("gpuwhy-").suffix(".html").tempfile()?;
    writeln!(
        page,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={link}\"><a href=\"{link}\">gpuwhy</a>"
    )?;
    let program = std::env::var_os("BROWSER").filter(|program| !program.is_empty());
    let mut browser = std::process::Command::new(program.unwrap_or_else(|| "xdg-open".into()));
    let nothing = std::process::Stdio::null;
    let mut child = browser.arg(page.path()).stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn()?;
    // Whoever started it has to take its end.
    std::thread::spawn(move || child.wait());
    Ok(page)
}

/// The certificate, and who may ask.
pub(crate) fn access(options: &AccessOptions) -> Result<(Option<Tls>, Tokens), ServeError> {
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ => None,
    };
    let variable = std::env::var("GPUWHY_TOKEN").ok();
    Ok((tls, Tokens::read(options.token_file.as_deref(), variable.as_deref())?))
}
