//! Where a server is, with TLS or without.

use crate::LoadError;
use gpuwhy_connect::{Connector, Tls};
use http::Uri;
use std::path::Path;

/// As `https://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub url: String,
    /// `HOST:PORT`.
    pub authority: String,
    host: String,
    port: u16,
    tls: bool,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address, LoadError> {
        let wrong = || LoadError::Address(text.into());
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else { return Err(wrong()) };
        let authority = format!("{host}:{port}");
        let has_more = uri.path() != "/" || uri.query().is_some();
        if host.is_empty() || has_more || uri.authority().is_none_or(|whole| whole.as_str() != authority) {
            return Err(wrong());
        }
        let scheme = if tls { "https" } else { "http" };
        Ok(Address { url: format!("{scheme}://{authority}"), authority, host: host.into(), port, tls })
    }

    /// `certificates` are those to trust instead of the system's, `protocol` what is spoken within TLS.
    pub(crate) fn connector(
        &self,
        certificates: Option<&Path>,
        protocol: &str,
    ) -> Result<Connector, LoadError> {
        let tls = self.tls.then_some(Tls { certificate: certificates, protocol });
        Connector::new(&self.host, self.port, tls).map_err(|error| LoadError::Trust(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for (text, authority, tls) in [
            ("http://127.0.0.1:4317", "127.0.0.1:4317", false),
            ("https://fleet.example:8081/", "fleet.example:8081", true),
            ("https://[::1]:4317", "[::1]:4317", true),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.authority.as_str(), address.tls), (authority, tls), "{text}");
        }
        for text in [
            "",
            "127.0.0.1:4317",
            "ftp://a:1",
            "http://a",
            "http://a:b",
            "http://u:p@a:1",
            "http://a:1/x",
            "http://a:1?x",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
