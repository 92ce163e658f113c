//! A connection to the server: TCP, and TLS where the address says so.

use super::target::{Protocol, Target};
use hyper_util::rt::TokioIo;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// What bytes go through, whichever it is.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) type Connection = TokioIo<Box<dyn Stream>>;

/// Connects again and again.
#[derive(Clone)]
pub(super) struct Connector {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(super) fn new(target: &Target) -> Result<Connector, Error> {
        // Addresses of version 6 are written in brackets, and known without.
        let host = target.host.trim_start_matches('[').trim_end_matches(']').to_string();
        let tls = match target.tls {
            true => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| Error::new(ErrorKind::InvalidInput, error))?;
                Some((TlsConnector::from(Arc::new(tls_config(target)?)), name))
            }
            false => None,
        };
        Ok(Connector { host, port: target.port, tls })
    }

    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        };
        Ok(TokioIo::new(stream))
    }
}

fn tls_config(target: &Target) -> Result<ClientConfig, Error> {
    let roots = match &target.certificate {
        Some(file) => named_roots(file)?,
        None => system_roots(),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match target.protocol {
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Http => vec![b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// The only ones that are trusted.
fn named_roots(file: &Path) -> Result<RootCertStore, Error> {
    let wrong = |why: String| Error::new(ErrorKind::InvalidInput, format!("{}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it".into()));
    }
    Ok(roots)
}

/// The system's; where it has none (a container without them), those Mozilla trusts.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
