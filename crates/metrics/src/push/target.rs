//! Where to and how: the address the user named, and OpenTelemetry's environment variables.

use crate::otlp::{Histograms, Signal, parse_pairs};
use gpuwhy_connect::{Connector, Tls};
use http::Uri;
use std::path::PathBuf;
use std::time::Duration;

/// How OTLP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    /// Protobuf in HTTP.
    Http,
}

/// A server, and what it is to be told.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub protocol: Protocol,
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// Before `/v1/metrics` and the like; without a slash at its end.
    pub path: String,
    /// Sent with every request; they may be secrets.
    pub headers: Vec<(String, String)>,
    pub gzip: bool,
    /// For one request.
    pub timeout: Duration,
    /// Certificates to trust, instead of the system's.
    pub certificate: Option<PathBuf>,
    /// How often metrics are sent.
    pub every: Duration,
    pub histograms: Histograms,
    /// Pairs the user adds to the resource.
    pub resource: Vec<(String, String)>,
}

/// Headers may be secrets.
impl std::fmt::Debug for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Target({:?} {})", self.protocol, self.url())
    }
}

/// What is wrong with an address or a variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(
        "'{0}' is no address of an OTLP server; write http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP)"
    )]
    Address(String),
    #[error("an address is seen by everybody on this host: put the password into OTEL_EXPORTER_OTLP_HEADERS")]
    Password,
    #[error("{name} is '{value}'; it can be {can}")]
    Variable { name: &'static str, value: String, can: &'static str },
}

impl Target {
    /// `variable` gives the environment's value of a name.
    pub fn parse(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Target, TargetError> {
        let wrong = || TargetError::Address(url.into());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(TargetError::Password);
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_string();
        // A port that is none is still in the text.
        let has_odd_port = uri.port_u16().is_none() && authority.as_str() != host;
        if has_odd_port || uri.query().is_some() {
            return Err(wrong());
        }
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let protocol = match variable("OTEL_EXPORTER_OTLP_PROTOCOL").as_deref() {
            Some("grpc") => Protocol::Grpc,
            Some("http/protobuf") => Protocol::Http,
            Some(other) => {
                return Err(TargetError::Variable {
                    name: "OTEL_EXPORTER_OTLP_PROTOCOL",
                    value: other.into(),
                    can: "grpc or http/protobuf",
                });
            }
            None if uri.port_u16() == Some(4317) => Protocol::Grpc,
            None => Protocol::Http,
        };
        let usual = match (protocol, tls) {
            (Protocol::Grpc, _) => 4317,
            (Protocol::Http, true) => 443,
            (Protocol::Http, false) => 4318,
        };
        Ok(Target {
            protocol,
            tls,
            host,
            port: uri.port_u16().unwrap_or(usual),
            path: base(uri.path()),
            headers: variable("OTEL_EXPORTER_OTLP_HEADERS")
                .map_or_else(Vec::new, |words| parse_pairs(&words)),
            gzip: gzip(variable("OTEL_EXPORTER_OTLP_COMPRESSION").as_deref())?,
            timeout: milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", &variable)?
                .unwrap_or(Duration::from_secs(10)),
            certificate: variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(Into::into),
            every: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &variable)?.unwrap_or(Duration::from_secs(10)),
            histograms: histograms(
                variable("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION").as_deref(),
            )?,
            resource: resource(&variable),
        })
    }

    pub(super) fn connector(&self) -> std::io::Result<Connector> {
        let protocol = match self.protocol {
            Protocol::Grpc => "h2",
            Protocol::Http => "http/1.1",
        };
        let tls = self.tls.then_some(Tls { certificate: self.certificate.as_deref(), protocol });
        Connector::new(&self.host, self.port, tls)
    }

    /// For people, and for the request's target.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.path)
    }

    /// Where one kind of data goes, over HTTP.
    pub(super) fn path_of(&self, signal: Signal) -> String {
        format!("{}/v1/{}", self.path, signal.name())
    }
}

/// The user may have named one of the three full paths: the others are beside it.
fn base(path: &str) -> String {
    let path = path.trim_end_matches('/');
    let full = Signal::ALL.iter().find_map(|signal| path.strip_suffix(&format!("/v1/{}", signal.name())));
    full.unwrap_or(path).to_string()
}

fn gzip(value: Option<&str>) -> Result<bool, TargetError> {
    match value {
        None | Some("gzip") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => Err(TargetError::Variable {
            name: "OTEL_EXPORTER_OTLP_COMPRESSION",
            value: other.into(),
            can: "gzip or none",
        }),
    }
}

fn histograms(value: Option<&str>) -> Result<Histograms, TargetError> {
    match value {
        None | Some("explicit_bucket_histogram") => Ok(Histograms::Explicit),
        Some("base2_exponential_bucket_histogram") => Ok(Histograms::Exponential),
        Some(other) => Err(TargetError::Variable {
            name: "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            value: other.into(),
            can: "explicit_bucket_histogram or base2_exponential_bucket_histogram",
        }),
    }
}

fn milliseconds(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<Duration>, TargetError> {
    let Some(value) = variable(name) else { return Ok(None) };
    match value.parse() {
        Ok(milliseconds @ 1..) => Ok(Some(Duration::from_millis(milliseconds))),
        _ => Err(TargetError::Variable { name, value, can: "a number of milliseconds" }),
    }
}

fn resource(variable: &impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut pairs = variable("OTEL_RESOURCE_ATTRIBUTES").map_or_else(Vec::new, |words| parse_pairs(&words));
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        pairs.retain(|(key, _)| key != "service.name");
        pairs.push(("service.name".into(), name));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, TargetError> {
        Target::parse(url, |_| None)
    }

    #[test]
    fn the_port_tells_the_protocol_and_paths_are_completed() {
        let grpc = parse("http://collector:4317").unwrap();
        assert_eq!((grpc.protocol, grpc.tls, grpc.port), (Protocol::Grpc, false, 4317));
        for (url, path) in [
            ("http://c:4318", "/v1/logs"),
            ("http://c:4318/", "/v1/logs"),
            ("https://c/otlp", "/otlp/v1/logs"),
            ("http://c:9090/api/v1/otlp/v1/metrics", "/api/v1/otlp/v1/logs"),
            ("http://c:9090/api/v1/otlp", "/api/v1/otlp/v1/logs"),
        ] {
            let target = parse(url).unwrap();
            assert_eq!(
                (target.protocol, target.path_of(Signal::Logs).as_str()),
                (Protocol::Http, path),
                "{url}"
            );
        }
        assert_eq!((parse("http://c").unwrap().port, parse("https://c").unwrap().port), (4318, 443));
        assert_eq!(parse("http://[::1]:4317").unwrap().host, "[::1]");
    }

    #[test]
    fn what_is_no_address_is_named() {
        for wrong in ["", "collector:4317", "ftp://c:4317", "http://", "http://c:99999", "http://c?x=1", "c"]
        {
            assert_eq!(parse(wrong), Err(TargetError::Address(wrong.into())), "{wrong}");
        }
        assert_eq!(parse("https://me:secret@c:4318"), Err(TargetError::Password));
    }

    #[test]
    fn the_environment_is_honoured_and_its_secrets_are_not_shown() {
        let variable = |name: &str| {
            let value = match name {
                "OTEL_EXPORTER_OTLP_PROTOCOL" => "grpc",
                "OTEL_EXPORTER_OTLP_HEADERS" => "authorization=Bearer%20hunter2",
                "OTEL_EXPORTER_OTLP_COMPRESSION" => "none",
                "OTEL_EXPORTER_OTLP_TIMEOUT" => "2500",
                "OTEL_METRIC_EXPORT_INTERVAL" => "1000",
                "OTEL_RESOURCE_ATTRIBUTES" => "cluster_id=a,service.name=x",
                "OTEL_SERVICE_NAME" => "trainer",
                _ => return None,
            };
            Some(value.to_string())
        };
        let target = Target::parse("https://c:4318", variable).unwrap();
        assert_eq!((target.protocol, target.gzip), (Protocol::Grpc, false));
        assert_eq!((target.timeout, target.every), (Duration::from_millis(2500), Duration::from_secs(1)));
        assert_eq!(target.headers, [("authorization".to_string(), "Bearer hunter2".to_string())]);
        let named =
            [("cluster_id", "a"), ("service.name", "trainer")].map(|(k, v)| (k.to_string(), v.to_string()));
        assert_eq!(target.resource, named);
        assert!(!format!("{target:?}").contains("hunter2"));
        let odd = Target::parse("http://c", |name| {
            (name == "OTEL_EXPORTER_OTLP_PROTOCOL").then(|| "http/json".into())
        });
        assert!(odd.unwrap_err().to_string().contains("grpc or http/protobuf"));
    }
}
