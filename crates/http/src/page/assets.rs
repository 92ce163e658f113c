//! A dashboard's files.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use ring::digest::{SHA256, digest};
use std::fmt::Write;

/// A file of `web/`, by its path there.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

// All files of `web/`; listed when this is built.
include!(concat!(env!("OUT_DIR"), "/assets.rs"));
const LOGIN: &str = include_str!("../../../../web/shared/login.html");

/// A dashboard: files of its own, and those that all have.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// As its login says it.
    name: &'static str,
    files: &'static [Asset],
}

impl Page {
    /// Of a trace.
    pub fn node() -> Page {
        Page { name: "gpuwhy", files: NODE }
    }

    /// Of a cluster.
    pub fn fleet() -> Page {
        Page { name: "gpuwhy fleet", files: FLEET }
    }

    fn all(self) -> impl Iterator<Item = &'static Asset> {
        self.files.iter().chain(SHARED)
    }

    /// What pages load. The pages themselves have paths of their own.
    fn find(self, name: &str) -> Option<&'static Asset> {
        self.all().find(|asset| asset.name == name && !asset.name.ends_with(".html"))
    }

    /// Whether there is a file at this path.
    pub fn has(self, path: &str) -> bool {
        path.strip_prefix('/').is_some_and(|name| self.find(name).is_some())
    }

    pub fn index(self, headers: &HeaderMap) -> Option<Response<Body>> {
        self.files.iter().find(|asset| asset.name.ends_with("/index.html")).map(|asset| send(asset, headers))
    }

    pub fn file(self, name: &str, headers: &HeaderMap) -> Option<Response<Body>> {
        self.find(name).map(|asset| send(asset, headers))
    }

    /// Where a token is shown; `message` is why it is shown again.
    pub fn login(self, status: StatusCode, message: &'static str) -> Response<Body> {
        let page = LOGIN.replace("{name}", self.name).replace("{message}", message);
        let mut response = Response::new(Body::from(page));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Asked for anew each time, and sent only when it has changed.
fn send(asset: &Asset, headers: &HeaderMap) -> Response<Body> {
    let tag = tag(asset.bytes);
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let same = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut response = Response::new(if same { Body::empty() } else { Body::from(asset.bytes) });
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

fn tag(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let mut tag = String::from("\"");
    for byte in digest.as_ref().iter().take(12) {
        // Writing to a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_has_its_own_files_and_the_shared_ones_and_no_others() {
        for (page, own, other) in [
            (Page::node(), "/node/app.js", "/fleet/app.js"),
            (Page::fleet(), "/fleet/app.js", "/node/app.js"),
        ] {
            assert!(page.has(own) && page.has("/shared/dom.js") && !page.has(other), "{own}");
            assert!(!page.has("/shared/login.html") && !page.has("/") && !page.has("/../Cargo.toml"));
            assert!(page.index(&HeaderMap::new()).is_some());
        }
    }

    #[test]
    fn what_a_module_imports_is_there() {
        for page in [Page::node(), Page::fleet()] {
            for asset in page.all().filter(|asset| asset.name.ends_with(".js")) {
                let text = std::str::from_utf8(asset.bytes).unwrap();
                let imports = text.lines().filter(|line| line.contains(" from \".") && line.ends_with(';'));
                for line in imports {
                    let wanted = line.rsplit('"').nth(1).unwrap();
                    let mut parts: Vec<&str> = asset.name.split('/').collect();
                    parts.pop();
                    for part in wanted.split('/') {
                        match part {
                            "." => {}
                            ".." => drop(parts.pop()),
                            part => parts.push(part),
                        }
                    }
                    assert!(page.find(&parts.join("/")).is_some(), "{}: {line}", asset.name);
                }
            }
        }
    }
}
