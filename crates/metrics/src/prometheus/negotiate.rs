//! Which format a client likes best.

use super::Format;

/// The one with the highest weight among those we have; the first named where they weigh the same, text where none fits.
pub(super) fn wanted(accept: &str) -> Format {
    let mut best = (0.0, Format::Text);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let value = |name: &str| {
            let found = parameters.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().trim_matches('"'))
        };
        let format = match kind.as_str() {
            "application/vnd.google.protobuf"
                if value("proto").is_none_or(|proto| proto == "io.prometheus.client.MetricFamily")
                    && value("encoding") == Some("delimited") =>
            {
                Format::Protobuf
            }
            // Versions differ in nothing that is on our page.
            "application/openmetrics-text" => Format::OpenMetrics,
            "text/plain" | "text/*" | "*/*" => Format::Text,
            _ => continue,
        };
        let weight = value("q").map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        if weight > best.0 {
            best = (weight, format);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_what_it_likes_best() {
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1",
                Format::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                 application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.1",
                Format::Protobuf,
            ),
            ("application/vnd.google.protobuf;encoding=text, text/plain;q=0.1", Format::Text),
            ("application/openmetrics-text;q=0, text/plain;q=0.1", Format::Text),
            ("application/json", Format::Text),
        ] {
            assert_eq!(wanted(accept), format, "{accept}");
        }
    }
}
