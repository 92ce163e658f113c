//! Who may come in: hosts, origins, tokens, sessions, TLS, sizes.

use crate::client::{Reply, parse, request};
use crate::made::{HOST, TOKEN, guarded, options, served, trace_of};
use gpuwhy_serve::{HttpOptions, Questions, Tls, serve_http};
use serde_json::json;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[test]
fn names_that_others_made_to_point_here_are_not_answered() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1:7777", "", "127.0.0.1.evil.example:80"] {
        for path in ["/", "/api/v1/trace", "/mcp", "/node/app.js"] {
            let reply = client.send("GET", path, &[("host", host)], "");
            assert!(matches!(reply.status, 400 | 403), "{host} {path}: {reply:?}");
            assert!(!reply.body.contains("coverage"), "{host} {path}");
        }
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:7777"] {
        assert_eq!(client.send("GET", "/api/v1/trace", &[("host", host)], "").status, 200, "{host}");
    }
    let proxied = served(&path, HttpOptions { hosts: vec!["gpu.example".into()], ..options() });
    assert_eq!(proxied.send("GET", "/api/v1/trace", &[("host", "gpu.example")], "").status, 200);
    assert_eq!(proxied.send("GET", "/api/v1/trace", &[("host", "other.example")], "").status, 403);
}

#[test]
fn pages_of_other_sites_are_not_answered() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let own = format!("http://{}", client.authority);
    assert_eq!(client.send("POST", "/api/v1/trace", &[("origin", &own)], "").status, 200);
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "file://"] {
        for path in ["/api/v1/trace", "/mcp", "/login"] {
            let reply = client.send("POST", path, &[("origin", origin)], "{}");
            assert_eq!(reply.status, 403, "{origin} {path}");
        }
    }
    // Without an origin, as of an image of another page: browsers tell where it comes from.
    for (site, mode, path, status) in [
        ("cross-site", "no-cors", "/api/v1/trace", 403),
        ("same-site", "no-cors", "/api/v1/trace", 403),
        ("cross-site", "navigate", "/api/v1/trace", 403),
        ("cross-site", "navigate", "/", 200),
        ("same-origin", "cors", "/api/v1/trace", 200),
        ("none", "navigate", "/api/v1/trace", 200),
    ] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode)];
        assert_eq!(client.send("GET", path, &headers, "").status, status, "{site} {mode} {path}");
    }
}

#[test]
fn replies_forbid_browsers_what_the_page_does_not_need() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    for path in ["/", "/node/app.js", "/shared/style.css", "/api/v1/trace", "/nowhere", "/api/v1/nothing"] {
        let reply = client.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"), "{path}");
        assert!(reply.header("access-control-allow-origin").is_none(), "{path}");
    }
    let page = client.get("/");
    assert!(
        page.body.contains("/node/app.js") && page.header("content-type") == Some("text/html; charset=utf-8")
    );
    let script = client.get("/node/app.js");
    let tag = script.header("etag").unwrap();
    let again = client.send("GET", "/node/app.js", &[("if-none-match", tag)], "");
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

#[test]
fn without_the_token_nothing_is_told() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, guarded());
    let wrong = format!("Bearer {TOKEN}x");
    let right = format!("Bearer {TOKEN}");
    for (method, path) in [
        ("GET", "/api/v1"),
        ("POST", "/api/v1/sql"),
        ("GET", "/api/v1/openapi.json"),
        ("GET", "/api/v1/snapshot"),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
    ] {
        for headers in [
            &[][..],
            &[("authorization", wrong.as_str())],
            &[("authorization", "Bearer ")],
            &[("authorization", "Basic YTph")],
            &[("authorization", TOKEN)],
            &[("cookie", "gpuwhy=0123456789abcdef")],
        ] {
            let reply = client.send(method, path, headers, "{}");
            assert_eq!(reply.status, 401, "{path} {headers:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert!(reply.json()["error"].as_str().unwrap().contains("a token is needed"));
        }
    }
    // Nor in an address, where it would be logged.
    assert_eq!(client.get(&format!("/api/v1?token={TOKEN}")).status, 401);
    assert_eq!(client.send("GET", "/api/v1", &[("authorization", &right)], "").status, 200);
    assert_eq!(client.get("/api/v1/health").json(), json!({"ok": true}));
    let known = client.send("GET", "/api/v1/health", &[("authorization", &right)], "").json();
    assert!(known["now_ns"].is_u64() && known["version"].is_string());
    let tools = client.mcp("tools/list", &json!({}), &[("authorization", &right)]);
    assert!(tools["result"]["tools"].is_array());
}

#[test]
fn browsers_show_the_token_once_and_go_by_a_session() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, guarded());
    let page = client.get("/");
    assert!(
        page.body.contains("<form method=\"post\" action=\"/login\">") && !page.body.contains("app.js"),
        "{page:?}"
    );
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let refused = client.send("POST", "/login", &form, "token=wrong");
    assert_eq!((refused.status, refused.header("set-cookie")), (401, None));
    assert!(refused.body.contains("That is not the token."));
    let entered = client.send("POST", "/login", &form, &format!("token={TOKEN}"));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict;") && !cookie.contains(TOKEN), "{cookie}");
    let session = cookie.split(';').next().unwrap();
    assert!(client.send("GET", "/", &[("cookie", session)], "").body.contains("app.js"));
    assert_eq!(client.send("POST", "/api/v1/trace", &[("cookie", session)], "").status, 200);
    // A page of another site does not get far with it, either.
    let foreign = [("cookie", session), ("origin", "http://evil.example")];
    assert_eq!(client.send("POST", "/api/v1/trace", &foreign, "").status, 403);
    assert_eq!(client.send("POST", "/logout", &[("cookie", session)], "").status, 303);
    assert_eq!(client.send("POST", "/api/v1/trace", &[("cookie", session)], "").status, 401);
}

#[test]
fn what_can_be_reached_from_elsewhere_needs_tls_and_a_token() {
    let (_folder, path) = trace_of("python");
    let (tls, _) = certificate();
    for options in [
        HttpOptions { address: "0.0.0.0:0".into(), ..options() },
        HttpOptions { address: "0.0.0.0:0".into(), ..guarded() },
        HttpOptions { address: "[::]:0".into(), tls: Some(tls), ..options() },
    ] {
        let refused = serve_http(Questions::new(path.clone(), HOST), options, |_| panic!("it listens"));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("needs TLS and a token") && message.lines().count() == 1, "{message}");
    }
    for wrong in ["nonsense", "127.0.0.1", "127.0.0.1:99999"] {
        let options = HttpOptions { address: wrong.into(), ..options() };
        let message =
            serve_http(Questions::new(path.clone(), HOST), options, |_| panic!("it listens")).unwrap_err();
        assert!(message.to_string().contains("write it as 127.0.0.1:7777"), "{message}");
    }
}

#[test]
fn questions_that_are_too_large_or_no_json_are_refused_in_a_sentence() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let large = client.send("POST", "/api/v1/sql", &[], &"x".repeat(2 << 20));
    assert_eq!(large.status, 413);
    for (body, words) in
        [("{", "no JSON"), ("[1]", "wrong request"), ("{\"colour\": 1}", "unknown field `colour`")]
    {
        let reply = client.send("POST", "/api/v1/events", &[], body);
        assert_eq!(reply.status, 400, "{body}");
        assert!(reply.json()["error"].as_str().unwrap().contains(words), "{}", reply.body);
    }
    assert_eq!(client.send("DELETE", "/api/v1/events", &[], "").status, 405);
    assert_eq!(client.get("/api/v1/../../etc/passwd").status, 404);
}

/// A certificate for localhost, and who trusts it.
fn certificate() -> (Tls, ClientConfig) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Tls::read(&cert, &key).unwrap(), config)
}

#[test]
fn with_tls_and_a_token_everything_is_answered_as_without() {
    let (_folder, path) = trace_of("python");
    let (tls, trusts) = certificate();
    let client = served(&path, HttpOptions { tls: Some(tls), ..guarded() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |request: String| -> Reply {
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(&client.authority).await.unwrap();
            let connector = tokio_rustls::TlsConnector::from(Arc::new(trusts.clone()));
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut bytes = Vec::new();
            // A peer that closes without saying so is no matter here.
            let _ = stream.read_to_end(&mut bytes).await;
            parse(&bytes)
        })
    };
    let token = format!("Bearer {TOKEN}");
    let headers = [("authorization", token.as_str())];
    let trace = ask(request("localhost", "GET", "/api/v1/trace", &headers, ""));
    assert_eq!((trace.status, trace.json()["nodes"].clone()), (200, json!(["node-7"])));
    assert_eq!(ask(request("localhost", "GET", "/api/v1/trace", &[], "")).status, 401);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let entered = ask(request("localhost", "POST", "/login", &form, &format!("token={TOKEN}")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-gpuwhy=") && cookie.ends_with("; Secure"), "{cookie}");
}

#[test]
fn files_that_are_no_certificate_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = folder.path().join("nothing.pem");
    std::fs::write(&nothing, "nothing").unwrap();
    for (cert, key) in
        [("/nonexistent", "/nonexistent"), (nothing.to_str().unwrap(), nothing.to_str().unwrap())]
    {
        let message = Tls::read(cert.as_ref(), key.as_ref()).unwrap_err().to_string();
        assert!(message.contains("the certificate") && message.contains("PEM"), "{message}");
    }
}
