//! The GPU itself and the fabric: samples, errors, asynchronous events.

use crate::support::{Trace, alone, can_trace, gpuwhy, sim, simwork};
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Traces a few seconds of a quiet workload with the stand-in NVML and what it is told to say.
fn sampled(trace: &Trace, says: &[(&str, &str)]) {
    let status = gpuwhy()
        .args(["trace", "--out"])
        .arg(trace.file())
        .arg("--")
        .arg(simwork())
        .args(["train", "--steps", "0", "--seconds", "4", "--kernel-us", "1000"])
        .env("LD_LIBRARY_PATH", sim())
        .envs(says.iter().copied())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn gpu_samples_say_what_the_driver_says() {
    if !can_trace("gpu_samples_say_what_the_driver_says") {
        return;
    }
    let _turn = alone();
    let trace = Trace::new();
    sampled(
        &trace,
        &[
            ("SIMGPU_DEVICES", "2"),
            ("SIMGPU_NVML_SM_PCT", "73"),
            ("SIMGPU_NVML_POWER_MW", "612000"),
            ("SIMGPU_NVML_TEMPERATURE", "81"),
            ("SIMGPU_NVML_SM_CLOCK", "1200"),
            ("SIMGPU_NVML_THROTTLE", "64"),
            ("SIMGPU_NVML_PCIE_WIDTH", "8"),
            ("SIMGPU_NVML_GPM", "1"),
            ("SIMGPU_NVML_OCCUPANCY_PCT", "41"),
            ("SIMGPU_NVML_XID", "79"),
        ],
    );
    assert_eq!(trace.number("SELECT count(DISTINCT gpu) FROM gpu_samples"), 2);
    assert!(trace.number("SELECT count(*) FROM gpu_samples") >= 4, "one a second for each");
    for (column, value) in [
        ("sm_pct", 73),
        ("power_mw", 612_000),
        ("temperature_c", 81),
        ("sm_clock_mhz", 1200),
        ("pcie_width", 8),
        ("pcie_width_max", 16),
    ] {
        let wrong = format!("SELECT count(*) FROM gpu_samples WHERE {column} IS NOT {value}");
        assert_eq!(trace.number(&wrong), 0, "{column}");
    }
    assert!(trace.text("SELECT throttle_reasons FROM gpu_samples LIMIT 1").contains("hw_thermal"));
    assert_eq!(trace.number("SELECT cast(max(sm_occupancy_pct) AS INTEGER) FROM gpu_samples"), 41);
    assert_eq!(trace.number("SELECT code FROM gpu_errors WHERE event = 'xid'"), 79);
    assert_eq!(trace.number("SELECT count(*) FROM gpu_errors"), 1, "it is told once");
    assert_eq!(trace.text("SELECT state FROM probes WHERE target = 'nvml'"), "attached");
}

#[test]
fn without_a_driver_it_is_said_once() {
    if !can_trace("without_a_driver_it_is_said_once") {
        return;
    }
    if std::path::Path::new("/proc/driver/nvidia/version").exists() {
        return;
    }
    let trace = Trace::new();
    trace.of_simwork(&[], &["train", "--steps", "0", "--seconds", "2"]);
    assert_eq!(trace.number("SELECT count(*) FROM gpu_samples"), 0);
    assert_eq!(trace.text("SELECT state FROM probes WHERE target = 'nvml'"), "absent");
    assert!(!trace.text("SELECT reason FROM probes WHERE target = 'nvml'").is_empty());
}

#[test]
fn rising_counters_of_the_fabric_are_events() {
    if !can_trace("rising_counters_of_the_fabric_are_events") {
        return;
    }
    let _turn = alone();
    // A host with a card: its sysfs, in a mount namespace of our own.
    let trace = Trace::new();
    let script = format!(
        "mount -t tmpfs none /sys/class && C=/sys/class/infiniband/mlx5_0/ports/1/counters && mkdir -p $C && \
         echo 100 > $C/symbol_error && echo 5 > $C/port_rcv_errors && \
         (sleep 3; echo 142 > $C/symbol_error) & sleep 0.5; exec '{}' trace --out '{}' --duration 12s",
        env!("CARGO_BIN_EXE_gpuwhy"),
        trace.file().display()
    );
    let status = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(trace.number("SELECT sum(delta) FROM rdma_events WHERE counter = 'symbol_error'"), 42);
    assert_eq!(trace.text("SELECT device FROM rdma_events WHERE counter = 'symbol_error'"), "mlx5_0");
    assert_eq!(trace.number("SELECT count(*) FROM rdma_events WHERE counter = 'port_rcv_errors'"), 0);
}

#[test]
fn asynchronous_events_are_seen_when_asked_for() {
    if !can_trace("asynchronous_events_are_seen_when_asked_for") {
        return;
    }
    for (flags, seen) in [(&["--rdma-verbs"][..], "IBV_EVENT_PORT_ERR"), (&[], "")] {
        let trace = Trace::new();
        let program = simwork();
        let words: Vec<&OsStr> = ["env", "SIMGPU_ASYNC_EVENT=10"]
            .map(OsStr::new)
            .into_iter()
            .chain([program.as_os_str()])
            .chain(["ibverbs", "--events", "1"].map(OsStr::new))
            .collect();
        let truth = trace.of_command(flags, &words);
        assert_eq!(truth["event_types"][0], 10);
        assert_eq!(trace.text("SELECT group_concat(event) FROM rdma_events"), seen, "{flags:?}");
        assert_eq!(trace.number("SELECT count(*) FROM rdma_events WHERE qp IS NOT NULL"), 0);
    }
}
