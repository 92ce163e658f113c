//! A connection to an address the user named: TCP, and TLS that trusts what the user or the system does.

pub mod grpc;

use hyper_util::rt::TokioIo;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore, crypto};

/// What bytes go through, whichever it is.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// For hyper.
pub type Connection = TokioIo<Box<dyn Stream>>;

/// How TLS is spoken.
#[derive(Debug, Clone, Copy)]
pub struct Tls<'a> {
    /// Certificates to trust, instead of the system's.
    pub certificate: Option<&'a Path>,
    /// The protocol within, as `http/1.1`.
    pub protocol: &'a str,
}

/// Connects again and again.
#[derive(Clone)]
pub struct Connector {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Connector({}:{})", self.host, self.port)
    }
}

impl Connector {
    pub fn new(host: &str, port: u16, tls: Option<Tls<'_>>) -> Result<Connector, Error> {
        // Addresses of version 6 are written in brackets, and known without.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let tls = match tls {
            Some(tls) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|error| Error::new(ErrorKind::InvalidInput, error))?;
                Some((TlsConnector::from(Arc::new(config(tls)?)), name))
            }
            None => None,
        };
        Ok(Connector { host, port, tls })
    }

    pub async fn connect(&self) -> Result<Connection, Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        };
        Ok(TokioIo::new(stream))
    }
}

fn config(tls: Tls<'_>) -> Result<ClientConfig, Error> {
    let roots = match tls.certificate {
        Some(file) => named_roots(file)?,
        None => system_roots(),
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![tls.protocol.as_bytes().to_vec()];
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

/// Whether there are certificates to trust in a file.
pub fn check(file: &Path) -> Result<(), Error> {
    named_roots(file).map(drop)
}

/// What is wrong with the certificate of whoever answered and what to do, if that is what an error is about.
pub fn certificate_trouble(error: &Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = inner else { return None };
    Some(match why {
        // Those who signed something else under the same name have not signed it, either.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "nobody who is trusted has signed it; name it, or who signed it, with --ca FILE".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name; use that name".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired; renew it".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; look at the clocks".into()
        }
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is marked as one that signs others; make one with basicConstraints=CA:FALSE".into()
        }
        other => other.to_string(),
    })
}

/// The innermost reason says most.
pub fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
