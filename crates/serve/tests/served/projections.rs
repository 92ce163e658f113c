//! Everything that is shown of a question comes from its one row.

use crate::made::{HOST, options, served, trace_of};
use gpuwhy_query::ENDPOINTS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Name, tool and whether it is of the host, of all rows.
fn rows() -> Vec<(&'static str, &'static str, bool)> {
    let of_trace = ENDPOINTS.iter().map(|row| (row.name, row.tool, false));
    of_trace.chain(HOST.iter().map(|row| (row.name, row.tool, true))).collect()
}

/// What a question needs to be answered at all.
fn request_of(name: &str) -> Value {
    if name == "sql" { json!({"statement": "SELECT op, count FROM op_summary"}) } else { json!({}) }
}

#[test]
fn every_row_is_a_path_a_tool_an_operation_and_a_section() {
    let (_folder, path) = trace_of("python");
    let client = served(&path, options());
    let names: BTreeSet<&str> = rows().iter().map(|row| row.0).collect();
    let tools: BTreeSet<&str> = rows().iter().map(|row| row.1).collect();
    assert_eq!((names.len(), tools.len()), (rows().len(), rows().len()), "each name once");

    // HTTP
    let listed = client.get("/api/v1").json();
    let listed: BTreeSet<&str> =
        listed["questions"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
    for (name, _, of_host) in rows() {
        let reply = client.post(&format!("/api/v1/{name}"), &request_of(name));
        let answer = reply.json();
        match reply.status {
            200 if of_host => {}
            200 => assert!(answer["coverage"]["lost"].is_number(), "{name}: {answer}"),
            404 => assert!(
                answer["error"].as_str().unwrap().starts_with("the trace has no "),
                "{name}: {answer}"
            ),
            _ => panic!("{name}: {reply:?}"),
        }
        // The same by query parameters, where that cannot make the host work.
        let parameters =
            if name == "sql" { "?statement=SELECT%20op,%20count%20FROM%20op_summary" } else { "" };
        let got = client.get(&format!("/api/v1/{name}{parameters}"));
        match of_host {
            true => assert_eq!((got.status, got.json()["kind"].clone()), (400, json!("usage")), "{name}"),
            false => assert_eq!((got.status, got.json()), (reply.status, answer), "{name}"),
        }
    }

    // OpenAPI
    let document = client.get("/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document, gpuwhy_serve::openapi(HOST));
    let paths: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(|path| path.strip_prefix("/api/v1/").unwrap())
        .collect();
    assert_eq!(paths, names);
    for (name, _, of_host) in rows() {
        let path = &document["paths"][format!("/api/v1/{name}")];
        assert_eq!(path.get("get").is_none(), of_host, "{name}");
        assert!(
            path["post"]["responses"]["200"]["content"]["application/json"]["schema"].is_object(),
            "{name}"
        );
    }
    references(&document, &document);

    // MCP
    let listed = client.mcp("tools/list", &json!({}), &[]);
    let listed = listed["result"]["tools"].as_array().unwrap();
    let known: BTreeSet<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(known, tools);
    for (name, tool, of_host) in rows() {
        let about = listed.iter().find(|listed| listed["name"] == tool).unwrap();
        assert_eq!(about["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(
            (&about["inputSchema"]["type"], &about["outputSchema"]["type"]),
            (&json!("object"), &json!("object")),
            "{tool}"
        );
        assert!(about["inputSchema"]["properties"]["max_tokens"].is_object(), "{tool}");
        references(about.get("inputSchema").unwrap(), &about["inputSchema"]);
        references(about.get("outputSchema").unwrap(), &about["outputSchema"]);
        let result = client.call(tool, &request_of(name));
        let message = result["content"][0]["text"].as_str().unwrap();
        if result["isError"] == true {
            assert!(message.starts_with("the trace has no "), "{tool}: {message}");
        } else {
            let answer = &result["structuredContent"];
            assert!(of_host || answer["coverage"].is_object(), "{tool}: {answer}");
            assert!(answer["next"].as_array().is_some_and(|next| !next.is_empty()), "{tool}");
            assert!(message.len() < 3 * 2_000 + 300, "{tool}: {} bytes", message.len());
        }
    }

    // docs/api.md
    let page = gpuwhy_serve::markdown(HOST);
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, names);
    for (name, tool, _) in rows() {
        assert!(
            page.contains(&format!("Tool `{tool}`; ")) && page.contains(&format!("`/api/v1/{name}`")),
            "{name}"
        );
    }
}

/// Every reference leads somewhere.
fn references(root: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                assert!(root.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
            }
            fields.values().for_each(|value| references(root, value));
        }
        Value::Array(list) => list.iter().for_each(|value| references(root, value)),
        _ => {}
    }
}

/// The names that are promised to assistants; those of the host are the program's own.
#[test]
fn the_tools_that_were_promised_are_there() {
    for tool in [
        "get_trace_stats",
        "get_causal_chains",
        "get_stacks",
        "run_sql",
        "get_timeline",
        "get_processes",
        "get_collectives",
        "get_memory",
        "get_graphs",
    ] {
        assert!(ENDPOINTS.iter().any(|row| row.tool == tool), "{tool}");
    }
}

#[test]
fn what_comes_next_is_a_tool_that_exists() {
    let host = ["get_check", "get_test_report", "run_demo"];
    for row in ENDPOINTS {
        let words = row.next.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("get_") || word.starts_with("run_")) {
            assert!(
                host.contains(&word) || ENDPOINTS.iter().any(|other| other.tool == word),
                "{}: {word}",
                row.name
            );
        }
        assert!(row.next.contains("get_") || row.next.contains("run_"), "{}: {}", row.name, row.next);
    }
}

/// Whoever reads a schema needs no other documentation.
#[test]
fn every_field_of_every_request_is_described() {
    let document = gpuwhy_serve::openapi(&[]);
    for row in ENDPOINTS {
        let path = format!("/api/v1/{}", row.name);
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            assert!(
                about["description"].as_str().is_some_and(|words| words.len() > 8),
                "{}.{field}: {about}",
                row.name
            );
        }
    }
}

#[test]
fn a_trace_that_is_being_written_is_read_as_it_grows_and_one_that_is_replaced_is_opened_anew() {
    let (_folder, path) = trace_of("python");
    let (_other, replacement) = trace_of("another");
    let client = served(&path, options());
    let comm = || client.post("/api/v1/processes", &json!({})).json()["rows"][0]["comm"].clone();
    assert_eq!(comm(), "python");
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer.execute("UPDATE processes SET comm = 'renamed'", []).unwrap();
    assert_eq!(comm(), "renamed");
    drop(writer);
    std::fs::rename(&replacement, &path).unwrap();
    assert_eq!(comm(), "another");
    std::fs::remove_file(&path).unwrap();
    let reply = client.post("/api/v1/processes", &json!({}));
    assert_eq!((reply.status, reply.json()["kind"].clone()), (404, json!("nothing")));
}
