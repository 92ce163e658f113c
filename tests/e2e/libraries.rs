//! Which library a call was made in: static, several versions at once, missing symbols, AMD's, the driver's devices.

use crate::support::{Gated, Running, Trace, alone, can_trace, sim};
use gpuwhy_model::Role;
use std::collections::BTreeMap;
use std::ffi::OsStr;

fn words<'a>(program: &'a std::path::Path, rest: &'a [&'a str]) -> Vec<&'a OsStr> {
    std::iter::once(program.as_os_str()).chain(rest.iter().map(OsStr::new)).collect()
}

#[test]
fn a_static_runtime_is_traced_at_the_driver() {
    if !can_trace("a_static_runtime_is_traced_at_the_driver") {
        return;
    }
    let trace = Trace::new();
    let program = sim().join(gpuwhy_simgpu::WORKLOAD_STATIC);
    let truth = trace.of_command(
        &["--keep-all"],
        &words(&program, &["train", "--steps", "5", "--launches-per-step", "40"]),
    );
    let made = |op: &str| truth["ops"][op].as_i64().unwrap_or(0);
    assert_eq!(trace.count_of("cuLaunchKernel"), made("cuLaunchKernel"));
    assert!(made("cudaMemcpyAsync") > 0 && made("cudaStreamSynchronize") > 0, "{truth}");
    assert_eq!(trace.number("SELECT count(*) FROM cuda_events WHERE op LIKE 'cuda%'"), 0);
    assert_eq!(
        trace.number("SELECT sum(count) FROM call_stats WHERE op LIKE 'cuMemcpy%'"),
        made("cudaMemcpyAsync") + made("cudaMemcpy"),
        "its copies are seen as the driver's"
    );
    assert_eq!(trace.count_of("cuStreamSynchronize"), made("cudaStreamSynchronize"));
}

#[test]
fn two_versions_in_one_process_are_told_apart() {
    if !can_trace("two_versions_in_one_process_are_told_apart") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&["--keep-all"], &["two-runtimes", "--n", "7"]);
    for (version, file) in [("v12", "libcudart.so.12"), ("v13", "libcudart.so.13")] {
        for (op, count) in truth[version].as_object().unwrap() {
            let seen = trace.number(&format!(
                "SELECT count(*) FROM cuda_events WHERE op = '{op}' AND library LIKE '%/{file}'"
            ));
            assert_eq!(seen, count.as_i64().unwrap(), "{op} in {file}");
        }
    }
}

#[test]
fn what_a_version_does_not_have_is_in_probes() {
    if !can_trace("what_a_version_does_not_have_is_in_probes") {
        return;
    }
    let trace = Trace::new();
    // A stand-in for a library of another time: it exports one of the functions, and the rest goes on.
    let folder = tempfile::tempdir().unwrap();
    gpuwhy_simgpu::unpack(folder.path()).unwrap();
    std::fs::copy(folder.path().join("libibverbs.so.1"), folder.path().join("libamdhip64.so.6")).unwrap();
    let program = folder.path().join(gpuwhy_simgpu::WORKLOAD);
    let truth = trace.of_command(&[], &words(&program, &["launch", "--launches", "500"]));
    assert_eq!(trace.count_of("cuLaunchKernel"), truth["ops"]["cuLaunchKernel"].as_i64().unwrap());
    assert_eq!(
        trace
            .number("SELECT count(*) FROM probes WHERE probe = 'hip' AND state = 'refused' AND target = '*'"),
        1,
        "a file that exports none of the functions is refused by name"
    );
    assert_eq!(
        trace.text("SELECT reason FROM probes WHERE probe = 'gpu' AND target = 'rdma counters'"),
        "this host has no RDMA port"
    );
    let attached =
        trace.number("SELECT count(*) FROM probes WHERE file LIKE '%/libcuda.so.1' AND state = 'attached'");
    assert!(attached > 80, "{attached}");
}

#[test]
fn hip_runs_through_the_same_tables() {
    if !can_trace("hip_runs_through_the_same_tables") {
        return;
    }
    let trace = Trace::new();
    let truth = trace.of_simwork(&["--keep-all"], &["hip-mixed"]);
    let mut made: BTreeMap<&str, i64> = BTreeMap::new();
    for (symbol, count) in truth["ops"].as_object().unwrap() {
        *made.entry(gpuwhy_probes::op_of_symbol(symbol)).or_default() += count.as_i64().unwrap();
    }
    for info in gpuwhy_probes::op_infos(gpuwhy_probes::PROBES) {
        if let Some(count) = made.get(info.name.as_str())
            && !matches!(info.role, Role::SetDevice | Role::Register)
        {
            assert_eq!(trace.count_of(&info.name), *count, "{}", info.name);
        }
    }
    assert_eq!(
        trace.number("SELECT count(*) FROM hip_events"),
        trace.number("SELECT sum(c.kept) FROM call_stats c JOIN ops o ON o.op = c.op WHERE o.layer = 'hip'")
    );
    for table in ["allocations", "graphs", "copy_stats", "gpu_time", "coldstart_events"] {
        assert!(trace.number(&format!("SELECT count(*) FROM {table}")) > 0, "{table} has HIP's rows");
    }
    let unnamed =
        "SELECT count(*) FROM hip_events WHERE op LIKE 'hip%Launch%Kernel%' AND kernel IS NULL AND ret = 0";
    assert_eq!(trace.number(unnamed), 0, "registered stubs and module functions have names");
}

#[test]
fn ioctls_on_the_drivers_files_are_counted_for_everybody() {
    if !can_trace("ioctls_on_the_drivers_files_are_counted_for_everybody") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    // Any character device stands in for the driver's. The process that uses it is not the one that is traced.
    let device = "/dev/loop-control";
    let program = sim().join(gpuwhy_simgpu::WORKLOAD);
    let visitor = Gated::start(&program, &["ioctl", "--device", device, "--count", "300"]);
    let traced = Gated::start(&program, &["launch", "--launches", "10"]);
    let pid = traced.pid().to_string();
    let running = Running::start(&trace, &["--pid", &pid, "--driver-device", device]);
    let visitor_pid = visitor.pid();
    let truth = visitor.finish();
    traced.finish();
    running.stop();
    assert_eq!(truth["count"], 300);
    assert_eq!(
        trace.number(&format!(
            "SELECT sum(count) FROM call_stats WHERE op = 'ioctl device' AND pid = {visitor_pid}"
        )),
        300
    );
    assert_eq!(trace.number(&format!("SELECT sum(count) FROM driver_stats WHERE pid = {visitor_pid}")), 300);
    assert!(
        trace.number(&format!(
            "SELECT count(*) FROM driver_events WHERE pid = {visitor_pid} AND cmd IS NOT NULL"
        )) > 0
    );
    assert_eq!(
        trace.text(&format!("SELECT comm FROM processes WHERE pid = {visitor_pid}")),
        "simwork",
        "who was in the driver has a name"
    );
    assert_eq!(
        trace.number(&format!("SELECT count(*) FROM blame WHERE pid = {visitor_pid} AND op IS NULL")),
        0,
        "what it does elsewhere is its own business"
    );
}

#[test]
fn devices_that_are_none_are_refused() {
    let output = crate::support::gpuwhy()
        .args(["trace", "--driver-device", "/etc/passwd", "--duration", "1s"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("/etc/passwd is not a character device"), "{message}");
}
