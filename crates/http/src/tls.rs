//! TLS from a certificate and a key in PEM files.

use crate::HttpError;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Clone)]
pub struct Tls(pub(crate) TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// For HTTP/1.1.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, HttpError> {
        let unusable = |what, path: &Path, why: &dyn std::fmt::Display| HttpError::Certificate {
            what,
            path: path.into(),
            why: why.to_string(),
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable("certificate", certificate, &error))?;
        if chain.is_empty() {
            return Err(unusable("certificate", certificate, &"there is none in it"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("key", key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| unusable("key", key, &error))?;
        Ok(Tls::speaking("http/1.1", config))
    }

    /// The same for HTTP/2.
    #[must_use]
    pub fn for_http2(&self) -> Tls {
        Tls::speaking("h2", ServerConfig::clone(self.0.config()))
    }

    fn speaking(protocol: &str, mut config: ServerConfig) -> Tls {
        config.alpn_protocols = vec![protocol.into()];
        Tls(TlsAcceptor::from(Arc::new(config)))
    }
}
