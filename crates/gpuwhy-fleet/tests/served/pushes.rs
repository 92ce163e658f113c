//! Pushes: what is taken, what is not, and that nothing is taken twice.

use crate::server::{A, ALL, PUSH_A, Server, ask, gauges, now_ns, try_ask};
use serde_json::{Value, json};
use std::io::Write;

#[test]
fn a_push_is_stored_once_however_often_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &[]);
    let request = gauges("a", "m", now_ns(), &[(0, 0.5), (1, 0.25)]);
    for _ in 0..3 {
        let reply = server.push(A, &request);
        assert_eq!((reply.status, reply.json()), (200, json!({})));
    }
    let rows = server.sql("SELECT rank, value_double, cluster_id, node_id, job_id FROM events ORDER BY rank");
    let row = |rank: u32, value: f64| json!({"rank": rank, "value_double": value, "cluster_id": "a", "node_id": "a-node", "job_id": "job-of-a"});
    assert_eq!(rows, [row(0, 0.5), row(1, 0.25)]);
    let counted = server.get(Some(ALL), "/api/v1/health").json()["counted"].clone();
    assert_eq!((&counted["pushes"], &counted["duplicate_pushes"]), (&json!(1), &json!(2)));
    // Another server on the same store knows it, too.
    server.kill();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.push(A, &request).status, 200);
    assert_eq!(server.sql("SELECT count(*) AS n FROM events"), [json!({"n": 2})]);
}

#[test]
fn what_is_not_taken_is_said_and_the_rest_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut request = gauges("a", "m", now_ns(), &[(0, 0.5)]);
    let foreign = gauges("b", "m", now_ns(), &[(0, 0.5), (1, 0.5)]);
    request["resourceMetrics"].as_array_mut().unwrap().push(foreign["resourceMetrics"][0].clone());
    let reply = server.push(PUSH_A, &request);
    assert_eq!(reply.status, 200);
    let partial = &reply.json()["partialSuccess"];
    assert_eq!(partial["rejectedDataPoints"], "2");
    assert_eq!(partial["errorMessage"], "2 are of a cluster this token may not push to");
    assert_eq!(server.sql("SELECT DISTINCT cluster_id FROM events"), [json!({"cluster_id": "a"})]);
}

#[test]
fn packed_json_and_hostile_bodies_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let json = "application/json";
    let body = gauges("a", "m", now_ns(), &[(0, 0.5)]).to_string();
    let push = |headers: &[(&str, &str)], body: &[u8]| {
        try_ask(&server.http, "POST", "/v1/metrics", Some(A), headers, body).unwrap()
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).unwrap();
    assert_eq!(
        push(&[("content-type", json), ("content-encoding", "gzip")], &gzip.finish().unwrap()).status,
        200
    );
    for (headers, body, status) in [
        (&[("content-type", json)][..], &b"{\"resourceMetrics\": 7}"[..], 400),
        (&[("content-type", json)], b"{", 400),
        (&[("content-type", "application/x-protobuf")], b"\xff\xff\xff\xff", 400),
        (&[("content-type", json), ("content-encoding", "gzip")], b"no gzip", 400),
        (&[("content-type", json), ("content-encoding", "br")], b"", 415),
        (&[("content-type", "text/plain")], b"", 415),
    ] {
        let reply = push(headers, body);
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
    }
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 64 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert_eq!(push(&[("content-type", json), ("content-encoding", "gzip")], &bomb).status, 413);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(push(&[("content-type", json)], deep.as_bytes()).status, 400);
    let rows = server.sql("SELECT count(*) AS n FROM events");
    assert_eq!(rows, [json!({"n": 1})], "it goes on");
}

#[test]
fn when_there_is_no_room_pushes_are_told_to_come_later_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--push-memory", "1M"]);
    let large: Vec<(u32, f64)> = (0..20_000).map(|rank| (rank, 0.5)).collect();
    let reply = server.push(A, &gauges("a", "large", now_ns(), &large));
    assert_eq!(reply.status, 429, "{}", reply.text());
    assert_eq!(reply.header("retry-after").as_deref(), Some("1"));
    let small = server.push(A, &gauges("a", "small", now_ns(), &[(0, 1.0)]));
    assert_eq!(small.status, 200, "the room is free again");
    assert_eq!(server.sql("SELECT metric_name FROM events"), [json!({"metric_name": "small"})]);
}

#[test]
fn the_answer_to_a_push_has_the_threshold_of_its_cohort() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let values: Vec<(u32, f64)> = (0..8).map(|rank| (rank, if rank == 5 { 0.2 } else { 0.95 })).collect();
    let mut reply = None;
    for _ in 0..6 {
        let pushed = server.push(A, &gauges("a", "gpuwhy.rank.health", now_ns(), &values));
        assert_eq!(pushed.status, 200);
        let known = pushed.header("gpuwhy-threshold").is_some();
        reply = Some(pushed);
        if known {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let reply = reply.unwrap();
    let threshold: f64 = reply.header("gpuwhy-threshold").expect("a threshold").parse().unwrap();
    assert!((0.2..0.95).contains(&threshold), "{threshold}");
    assert_eq!(reply.header("gpuwhy-quorum-met").as_deref(), Some("true"));
    assert_eq!(reply.header("gpuwhy-cohort").as_deref(), Some("a/job-of-a"));
    let asked = server.get(Some(A), "/api/v1/threshold?cluster_id=a").json();
    assert_eq!(asked["thresholds"][0]["cohort"], "a/job-of-a", "{asked}");
    let theirs = server.get(Some(A), "/api/v1/threshold?cluster_id=b").json();
    assert_eq!(theirs["thresholds"], json!([]));
}

#[test]
fn the_tools_answer_from_what_was_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let now = now_ns();
    for step in 0..5 {
        let values: Vec<(u32, f64)> = (0..8).map(|rank| (rank, if rank == 5 { 0.2 } else { 0.95 })).collect();
        let pushed = server.push(A, &gauges("a", "gpuwhy.rank.health", now - step * 1_000_000_000, &values));
        assert_eq!(pushed.status, 200);
    }
    let outliers = server.tool(A, "find_outlier_nodes", json!({})).json();
    let named = &outliers["cohorts"][0];
    assert_eq!(
        (&named["cluster_id"], &named["outliers"][0]["member"]),
        (&json!("a"), &json!("rank 5 on a-node")),
        "{outliers}"
    );
    assert_eq!(named["outliers"].as_array().unwrap().len(), 1);
    let history = server.tool(A, "event_history", json!({"rank": 5, "limit": 3})).json();
    assert_eq!((history["rows"].as_array().unwrap().len(), &history["truncated"]), (3, &json!(true)));
    assert_eq!(history["rows"][0]["timestamp_ns"], now);
    let nodes = server.tool(A, "nodes", json!({})).json();
    assert_eq!(nodes["rows"][0]["node_id"], "a-node");
    let metrics = server.tool(A, "run_analysis", json!({"analysis": "metrics"})).json();
    assert_eq!(metrics["rows"][0]["points"], 40);
    for (tool, request) in
        [("collectives", json!({})), ("hang_autopsy", json!({})), ("get_cost", json!({"since": "1h"}))]
    {
        let reply = server.tool(A, tool, request);
        assert_eq!(reply.status, 200, "{tool}: {}", reply.text());
    }
    let wrong = server.tool(A, "event_history", json!({"colour": "red"}));
    assert_eq!((wrong.status, &wrong.json()["kind"]), (400, &json!("usage")));
}

#[test]
fn collectives_of_nodes_with_different_clocks_are_joined_and_the_late_rank_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let now = now_ns();
    let pair = |key: &str, value: Value| json!({"key": key, "value": value});
    // Rank 3 comes 50 ms late to each; its node's clock is 2 s ahead.
    for rank in 0..4u64 {
        let calls: Vec<Value> = (0..40u64)
            .map(|seq| {
                let late = if rank == 3 { 50_000_000 } else { rank * 10_000 };
                let ahead = if rank == 3 { 2_000_000_000 } else { 0 };
                let begun = now - 20_000_000_000 + seq * 200_000_000;
                let ended = begun + 50_000_000 + 1_000_000;
                let number = |number: u64| json!({"intValue": number.to_string()});
                json!({"kvlistValue": {"values": [
                    pair("comm_id_hash", json!({"stringValue": "0xab"})), pair("seq", number(seq)), pair("op", json!({"stringValue": "ALL_REDUCE"})),
                    pair("rank", number(rank)), pair("nranks", number(4)), pair("count", number(1024)),
                    pair("datatype", json!({"stringValue": "float32"})), pair("start_ns", number(begun + late + ahead)),
                    pair("duration_ns", number(ended - begun - late)),
                ]}})
            })
            .collect();
        let request = json!({"resourceLogs": [{
            "resource": {"attributes": [pair("cluster_id", json!({"stringValue": "a"})), pair("node_id", json!({"stringValue": format!("node{rank}")})),
                pair("job_id", json!({"stringValue": "j"}))]},
            "scopeLogs": [{"logRecords": [{"timeUnixNano": now.to_string(),
                "attributes": [pair("event.name", json!({"stringValue": "gpuwhy.collectives"})), pair("rank", json!({"intValue": rank.to_string()}))],
                "body": {"arrayValue": {"values": calls}}}]}],
        }]});
        let reply = ask(
            &server.http,
            "POST",
            "/v1/logs",
            Some(A),
            "application/json",
            request.to_string().as_bytes(),
        );
        assert_eq!((reply.status, reply.json()), (200, json!({})));
    }
    // Only metrics have a newest time; none were pushed, so all of the collectives are asked for.
    let answer = server.tool(A, "collectives", json!({"from_ns": now - 60_000_000_000})).json();
    assert_eq!(answer["calls"], 160, "{answer}");
    let report = &answer["jobs"][0]["communicators"][0];
    assert_eq!(report["ranks"][0]["rank"], 3, "{report}");
    let clocks = answer["jobs"][0]["clocks"].as_array().unwrap();
    let of = |node: &str| {
        clocks.iter().find(|clock| clock["node"] == node).and_then(|clock| clock["ahead_ns"].as_i64())
    };
    let difference = of("node3").unwrap_or(0) - of("node0").unwrap_or(0);
    assert!((difference - 2_000_000_000).abs() < 60_000_000, "{clocks:?}");
}
