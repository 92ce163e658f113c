//! Which page asks: one's own, nobody's, or another site's, which must not.

use axum::body::Body;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};

/// Sent with every reply. Nothing is loaded from elsewhere, nothing is framed, nothing is told to others.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    // With `no-referrer` a browser hides from our own forms where they are from, too.
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// What browsers are to hold a page to.
pub fn protect(response: &mut Response<Body>) {
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// A page says where it is from; that must be here.
pub fn is_same_origin(headers: &HeaderMap, secure: bool) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let scheme = if secure { "https://" } else { "http://" };
    let own = headers.get(HOST).and_then(|host| host.to_str().ok());
    let asked = origin.to_str().ok().and_then(|origin| origin.strip_prefix(scheme));
    own.is_some() && asked.zip(own).is_some_and(|(asked, own)| asked.eq_ignore_ascii_case(own))
}

/// A page of another site can make a browser ask without saying so, but browsers tell. Following a link to the page itself is no
/// harm.
pub fn is_from_elsewhere(headers: &HeaderMap, path: &str) -> bool {
    let word = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_visit = path == "/" && word("sec-fetch-mode") == Some("navigate");
    matches!(word("sec-fetch-site"), Some("cross-site" | "same-site")) && !is_visit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_are_told_by_their_origin() {
        let headers = |host: &'static str, origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            headers
        };
        assert!(is_same_origin(&headers("localhost:7777", "http://localhost:7777"), false));
        for (host, origin) in [
            ("localhost:7777", "http://evil.com"),
            ("localhost:7777", "http://localhost:7778"),
            ("localhost:7777", "https://localhost:7777"),
            ("localhost:7777", "null"),
            ("localhost:7777", "http://localhost:7777.evil.com"),
            ("localhost:7777", ""),
        ] {
            assert!(!is_same_origin(&headers(host, origin), false), "{origin}");
        }
    }

    #[test]
    fn a_link_from_elsewhere_leads_to_the_page_and_nowhere_else() {
        let headers = |site: &'static str, mode: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            headers.insert("sec-fetch-mode", HeaderValue::from_static(mode));
            headers
        };
        assert!(!is_from_elsewhere(&headers("cross-site", "navigate"), "/"));
        assert!(is_from_elsewhere(&headers("cross-site", "navigate"), "/api/v1/explain"));
        assert!(is_from_elsewhere(&headers("same-site", "cors"), "/"));
        assert!(!is_from_elsewhere(&headers("same-origin", "cors"), "/api/v1/explain"));
        assert!(!is_from_elsewhere(&HeaderMap::new(), "/api/v1/explain"));
    }
}
