//! Who sees what: nobody more than the contract says.

use crate::server::{A, ALL, B, PUSH_A, Server, ask, audited, command, gauges, now_ns, try_ask};
use serde_json::{Value, json};

fn filled(folder: &std::path::Path) -> Server {
    let server = Server::start(folder, &[]);
    for (token, cluster) in [(A, "a"), (B, "b")] {
        let pushed = server
            .push(token, &gauges(cluster, "gpuwhy.rank.health", now_ns(), &[(0, 0.5), (1, 0.5), (2, 0.5)]));
        assert_eq!(pushed.status, 200);
    }
    server
}

#[test]
fn somebody_without_a_token_sees_that_it_lives_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    assert_eq!(server.get(None, "/api/versions").json(), json!({"versions": ["v1"]}));
    assert_eq!(server.get(None, "/api/v1/health").json(), json!({"ok": true}));
    assert_eq!(server.get(Some("a-token-nobody-has-made-up"), "/api/v1/health").json(), json!({"ok": true}));
    // The page where a token is shown, and files that are the same everywhere.
    let page = server.get(None, "/");
    assert!(page.status == 200 && page.text().contains("Log in") && !page.text().contains("a-node"));
    assert!(
        page.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert_eq!(server.get(None, "/shared/dom.js").status, 200);
    assert_eq!(server.get(None, "/node/app.js").status, 401, "another dashboard's");
    let asked = [
        "/api",
        "/api/v1",
        "/api/v1/tools/list",
        "/api/v1/openapi.json",
        "/api/v1/threshold?cluster_id=a",
        "/mcp",
        "/nothing",
        "/api/v1/sql",
        "/api/v1/tools/fleet.cluster.nodes",
        "/api/v1/health/",
        "//api/v1/health",
        "/api/v1/../versions",
    ];
    let mut bodies: Vec<String> = Vec::new();
    for path in asked {
        for method in ["GET", "POST"] {
            let reply = ask(&server.api, method, path, None, "application/json", b"{}");
            assert_eq!(reply.status, 401, "{method} {path}");
            bodies.push(reply.text());
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "the same whatever is asked: {bodies:?}");
    for path in ["/v1/metrics", "/v1/logs", "/v1/traces"] {
        assert_eq!(ask(&server.http, "POST", path, None, "application/json", b"{}").status, 401);
    }
}

#[test]
fn a_tenant_cannot_learn_that_another_cluster_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let list = server.get(Some(A), "/api/v1/tools/list").json();
    let tools: Vec<String> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().into()).collect();
    assert_eq!(tools.len(), 7, "{tools:?}");
    let forms = [json!({}), json!({"since": "1h"})];
    for tool in &tools {
        let short = tool.trim_start_matches("fleet.cluster.");
        let mut requests: Vec<Value> = forms.to_vec();
        if short == "run_analysis" {
            let names = [
                "metrics",
                "slowest_ranks",
                "causes",
                "idle",
                "silent_nodes",
                "findings_by_class",
                "slow_collectives",
            ];
            requests = names.iter().map(|name| json!({"analysis": name})).collect();
        }
        if matches!(short, "nodes" | "hang_autopsy") {
            requests.pop();
        }
        for request in requests {
            let own = server.tool(A, short, request.clone());
            assert_eq!(own.status, 200, "{tool} {request}: {}", own.text());
            assert!(
                !own.text().contains("b-node") && !own.text().contains("job-of-b"),
                "{tool}: {}",
                own.text()
            );
            let named = |cluster: &str| {
                let mut request = request.clone();
                request["cluster_id"] = cluster.into();
                server.tool(A, short, request).text()
            };
            assert_eq!(named("b"), named("z"), "{tool}: as if it were not there");
        }
    }
    let seen = server.tool(ALL, "nodes", json!({})).text();
    assert!(seen.contains("a-node") && seen.contains("b-node"), "{seen}");
}

#[test]
fn a_token_does_what_its_scopes_say() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let sql = json!({"sql": "SELECT count(*) AS n FROM events"}).to_string();
    let asked =
        |token| ask(&server.api, "POST", "/api/v1/sql", Some(token), "application/json", sql.as_bytes());
    assert_eq!(asked(ALL).json()["rows"], json!([{"n": 6}]));
    for token in [A, B, PUSH_A] {
        assert_eq!(asked(token).status, 403, "{token}");
    }
    assert_eq!(server.tool(A, "run_analysis", json!({"sql": "SELECT 1"})).status, 403);
    assert_eq!(server.tool(PUSH_A, "nodes", json!({})).status, 403);
    assert_eq!(server.get(Some(PUSH_A), "/api/v1/tools/list").json(), json!({"tools": []}));
    assert_eq!(server.get(Some(PUSH_A), "/api/v1/threshold?cluster_id=a").status, 200);
    let health = |token| server.get(Some(token), "/api/v1/health").json();
    assert!(health(A).get("counted").is_none(), "of all clusters together");
    assert!(health(ALL)["counted"]["rows"].as_u64() == Some(6));
    assert_eq!(
        (&health(A)["clusters"], &health(A)["scopes"]),
        (&json!(["a"]), &json!(["push", "read", "sql"]))
    );
    assert_eq!(health(ALL)["clusters"], json!("*"));
}

#[test]
fn who_administers_the_server_sees_what_it_counted_and_who_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let path = "/api/v1/tools/fleet.server.status";
    let asked = |token| ask(&server.api, "POST", path, Some(token), "application/json", b"{\"limit\": 2}");
    assert_eq!(asked(A).status, 403);
    let status = asked(ALL).json();
    assert_eq!(status["counted"]["rows"], 6, "{status}");
    let entries: Vec<_> = status["asked"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(entries, [403], "what was asked before: {status}");
    let tools = |token| server.get(Some(token), "/api/v1/tools/list").text().contains("fleet.server.status");
    assert!(tools(ALL) && !tools(A));
}

/// A session does what its token may, only for its own page.
#[test]
fn a_browser_s_session_is_its_token_s_and_no_other_page_can_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let login = |token: &str, headers: &[(&str, &str)]| {
        let body = format!("token={token}");
        try_ask(&server.api, "POST", "/login", None, headers, body.as_bytes()).unwrap()
    };
    assert_eq!(login("a-token-nobody-has-made-up", &form).status, 401);
    let push_only = login(PUSH_A, &form);
    assert!(push_only.status == 403 && push_only.text().contains("may not read"), "{}", push_only.text());
    let elsewhere = [form[0], ("sec-fetch-site", "cross-site")];
    assert_eq!(login(B, &elsewhere).status, 403);
    let entered = login(B, &form);
    assert_eq!(entered.status, 303);
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let nodes = |more: &[(&str, &str)]| {
        let headers = [&[("cookie", cookie), ("content-type", "application/json")], more].concat();
        try_ask(&server.api, "POST", "/api/v1/tools/fleet.cluster.nodes", None, &headers, b"{}").unwrap()
    };
    let own = nodes(&[]);
    assert!(own.status == 200 && own.text().contains("b-node") && !own.text().contains("a-node"));
    assert_eq!(nodes(&[("origin", "http://evil.example")]).status, 401);
    assert_eq!(nodes(&[("sec-fetch-site", "cross-site")]).status, 401);
    let left = try_ask(&server.api, "POST", "/logout", None, &[("cookie", cookie)], b"").unwrap();
    assert_eq!((left.status, nodes(&[]).status), (303, 401));
}

#[test]
fn sql_reads_and_nothing_else_and_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let asked = |sql: &str| {
        let body = json!({"sql": sql, "seconds": 1, "limit": 5}).to_string();
        ask(&server.api, "POST", "/api/v1/sql", Some(ALL), "application/json", body.as_bytes())
    };
    for sql in [
        "DROP TABLE events",
        "COMMIT; DROP TABLE events; SELECT 1",
        "SELECT 1'); DROP TABLE events; --",
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY events TO '/tmp/stolen.csv'",
        "SET enable_external_access = true",
        "ATTACH '/tmp/x.duckdb'",
    ] {
        let reply = asked(sql);
        assert_eq!((reply.status, &reply.json()["kind"]), (400, &json!("usage")), "{sql}: {}", reply.text());
    }
    let slow = asked("SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b");
    assert_eq!((slow.status, &slow.json()["kind"]), (504, &json!("slow")), "{}", slow.text());
    let many = asked("SELECT * FROM range(1000000)").json();
    assert_eq!((many["rows"].as_array().unwrap().len(), &many["truncated"]), (5, &json!(true)));
    assert_eq!(server.sql("SELECT count(*) AS n FROM events"), [json!({"n": 6})]);
}

#[test]
fn every_request_is_audited_and_no_token_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    server.get(None, "/api/v1/tools/list");
    server.get(Some("a-token-nobody-has-made-up"), "/secret");
    server.tool(A, "nodes", json!({}));
    ask(&server.http, "POST", "/v1/metrics", None, "application/json", b"{}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("data").join(name)).unwrap();
    let entries =
        |log: &str| -> Vec<Value> { log.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let short = |entries: &[Value]| -> Vec<(String, u64)> {
        let of = |entry: &Value| (entry["path"].as_str().unwrap().into(), entry["status"].as_u64().unwrap());
        entries.iter().map(of).collect()
    };
    let audited = audited(folder.path());
    assert_eq!(audited.len(), 1, "a log for each token");
    let (log, refused) = (audited[0].clone(), read("refused.log"));
    let allowed = entries(&log);
    assert_eq!(short(&allowed), [("/api/v1/tools/fleet.cluster.nodes".into(), 200)]);
    let expected = ["/api/v1/tools/list", "/secret", "/v1/metrics"].map(|path| (path.to_string(), 401));
    assert_eq!(short(&entries(&refused)), expected, "what is refused is kept apart");
    assert!(allowed[0]["token"].as_str().is_some_and(|token| token.len() == 8));
    for token in [ALL, A, B, PUSH_A, "nobody-has"] {
        assert!(!log.contains(token) && !refused.contains(token), "{log} {refused}");
    }
}

#[test]
fn who_asks_too_often_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let statuses: Vec<u16> = (0..300).map(|_| server.get(Some(A), "/api/v1/health").status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(server.get(Some(B), "/api/v1/health").status, 200, "others do not pay for it");
}

#[test]
fn a_store_that_is_not_there_yet_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let store = ["--insecure-no-tls", "--store", "clickhouse+http://127.0.0.1:8123"];
    let output = command(folder.path()).args(store).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("cannot keep its data in ClickHouse; leave --store out"), "{message}");
}

#[test]
fn without_tls_it_starts_only_by_name_and_with_it_nothing_is_plain() {
    let folder = tempfile::tempdir().unwrap();
    let plain = command(folder.path()).output().unwrap();
    let message = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert_eq!((plain.status.code(), message.contains("--insecure-no-tls")), (Some(2), true), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn a_second_server_on_the_same_data_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    let second = command(folder.path()).arg("--insecure-no-tls").output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(
        (second.status.code(), message.contains("another gpuwhy-fleet")),
        (Some(1), true),
        "{message}"
    );
    assert!(server.interrupt(), "Ctrl-C ends it well");
}

#[test]
fn slow_clients_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = filled(folder.path());
    use std::io::Write;
    let address = server.http.trim_start_matches("http://");
    let idle: Vec<std::net::TcpStream> = (0..200)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let head = format!("POST /v1/metrics HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {A}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{{");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let request = gauges("a", "m", now_ns(), &[(0, 1.0)]).to_string();
    let reply = try_ask(
        &server.http,
        "POST",
        "/v1/metrics",
        Some(A),
        &[("content-type", "application/json")],
        request.as_bytes(),
    );
    assert_eq!(reply.unwrap().status, 200);
    drop(idle);
}
