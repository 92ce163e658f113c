//! Device memory: every path counted once, who holds it, and what happens when there is no more.

use crate::support::{Gated, Running, Trace, alone, can_trace, simwork, wait_until};

#[test]
fn every_path_of_allocation_counts_once() {
    if !can_trace("every_path_of_allocation_counts_once") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["memory", "--rounds", "4"]);
    let pid = &truth["pid"];
    for (kind, peak) in truth["peak"].as_object().unwrap() {
        let seen = format!("SELECT max(peak_bytes) FROM memory_stats WHERE kind = '{kind}' AND pid = {pid}");
        assert_eq!(trace.number(&seen), peak.as_i64().unwrap(), "{kind}: peak");
    }
    // What the process did not free was freed by its end: those are the live ones.
    for (kind, live) in truth["live"].as_object().unwrap() {
        let seen = trace.number(&format!(
            "SELECT sum(bytes) FROM allocations a JOIN processes p ON p.pid = a.pid WHERE kind = '{kind}' AND \
             a.freed_ns = p.end_ns"
        ));
        assert_eq!(seen, live.as_i64().unwrap(), "{kind}: live at the end");
    }
    // All are made within milliseconds: stacks that do not fit into the rings then are counted as lost.
    let lost = trace.number("SELECT ifnull(sum(count), 0) FROM loss WHERE reason LIKE '%a stack was lost'");
    let without = trace.number("SELECT count(*) FROM allocations WHERE stack_id IS NULL");
    assert!(without <= lost, "{without} allocations have no stack, and {lost} stacks were lost");
}

#[test]
fn live_memory_is_seen_while_the_process_lives() {
    if !can_trace("live_memory_is_seen_while_the_process_lives") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    let stop = tempfile::tempdir().unwrap();
    let stop_file = stop.path().join("stop").display().to_string();
    let words = ["memory", "--leak", "--bytes", "1048576", "--stop-file", &stop_file];
    let workload = Gated::start(&simwork(), &words);
    let running = Running::start(&trace, &[]);
    workload.open();
    let live = "SELECT live_bytes FROM memory_stats WHERE kind = 'device' ORDER BY timestamp_ns DESC LIMIT 1";
    wait_until("it has grown", || {
        rusqlite::Connection::open(trace.file())
            .and_then(|db| db.query_row(live, [], |row| row.get::<_, i64>(0)))
            .is_ok_and(|bytes| bytes >= 20 << 20)
    });
    // One call site holds it all.
    assert_eq!(
        trace.number("SELECT count(DISTINCT stack_id) FROM memory_holders WHERE bytes >= 20 << 20"),
        1
    );
    std::fs::write(&stop_file, "").unwrap();
    let truth = workload.finish();
    running.stop();
    assert_eq!(
        trace.number("SELECT max(peak_bytes) FROM memory_stats"),
        truth["peak"]["device"].as_i64().unwrap()
    );
}

#[test]
fn out_of_memory_names_who_holds_it() {
    if !can_trace("out_of_memory_names_who_holds_it") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&[], &["memory", "--oom"]);
    assert_eq!(trace.number("SELECT count(*) FROM memory_failures"), 1);
    assert_eq!(trace.number("SELECT ret FROM memory_failures"), 2);
    assert_eq!(
        trace.number("SELECT live_bytes FROM memory_failures"),
        truth["live"]["device"].as_i64().unwrap()
    );
    let held = "SELECT sum(j.value ->> 'bytes') FROM memory_failures, json_each(holders) j";
    assert_eq!(trace.number(held), truth["live"]["device"].as_i64().unwrap());
}

#[test]
fn copies_are_summed_by_where_they_went() {
    if !can_trace("copies_are_summed_by_where_they_went") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&["--keep-all"], &["mixed"]);
    let copies = "SELECT sum(count) FROM copy_stats";
    let calls = "SELECT sum(c.count) FROM call_stats c JOIN ops o ON o.op = c.op WHERE o.family = 'copy'";
    assert!(trace.number(copies) > 20, "{truth}");
    assert_eq!(trace.number(copies), trace.number(calls));
    assert_eq!(
        trace.number("SELECT sum(bytes) FROM copy_stats"),
        trace.number(
            "SELECT sum(c.bytes) FROM call_stats c JOIN ops o ON o.op = c.op WHERE o.family = 'copy'"
        )
    );
    for (direction, op) in [
        ("host_to_device", "cuMemcpyHtoD"),
        ("device_to_host", "cuMemcpyDtoHAsync"),
        ("device_to_device", "cuMemcpyDtoD"),
        ("peer", "cuMemcpyPeer"),
    ] {
        assert_eq!(
            trace.text(&format!("SELECT DISTINCT direction FROM cuda_events WHERE op = '{op}'")),
            direction
        );
    }
}
