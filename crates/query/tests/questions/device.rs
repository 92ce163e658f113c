//! Questions about the device: memory, counters, the driver.

use crate::made::{SECOND, START, ask, columns, processes, refused, rows, trace_of, trace_of_facts, window};
use gpuwhy_model::{
    Allocation, Batch, Facts, GpuProcess, GpuSample, Holder, MemoryFailure, MemoryKind, MemoryUse, OpId,
};
use serde_json::json;

#[test]
fn memory_is_told_as_it_is_and_by_whom_it_is_held() {
    let used = |second, pid, live_bytes| MemoryUse {
        time_ns: START + second * SECOND,
        pid,
        gpu: Some(0),
        kind: MemoryKind::Device,
        live_bytes,
        peak_bytes: 900,
        live_count: 2,
        allocated_bytes: 1000,
        freed_bytes: 1000 - live_bytes,
        failures: 1,
    };
    let piece = |address, bytes, second, freed: bool| Allocation {
        pid: 10,
        address,
        bytes,
        allocated_ns: START + second * SECOND,
        freed_ns: freed.then_some(START + 90 * SECOND),
        tid: 11,
        op: OpId(2),
        kind: MemoryKind::Device,
        gpu: Some(0),
        pool: None,
        stack_id: Some(i64::from(second > 50)),
    };
    let failure = MemoryFailure {
        time_ns: START + 60 * SECOND,
        pid: 20,
        tid: 21,
        op: OpId(2),
        bytes: 1 << 30,
        ret: 2,
        gpu: Some(0),
        stack_id: None,
        live_bytes: 700,
        holders: vec![Holder { pid: 10, stack_id: Some(0), bytes: 700, count: 2 }],
    };
    let facts = Facts {
        memory: vec![used(1, 10, 500), used(2, 10, 300), used(1, 20, 100), used(100, 20, 50)],
        allocations: vec![
            piece(1, 10, 1, false),
            piece(2, 20, 2, false),
            piece(3, 5, 99, false),
            piece(4, 99, 1, true),
        ],
        memory_failures: vec![failure],
        ..Facts::default()
    };
    let (_folder, reader) = trace_of_facts(&facts);
    let answer = ask(&reader, "memory", json!({})).unwrap();
    let list = |name: &str| answer[name].as_array().unwrap().clone();
    assert_eq!(
        columns(&list("usage"), &["pid", "process", "gpu", "kind", "live_bytes", "peak_bytes", "failures"]),
        json!([[10, "python", 0, "device", 300, 900, 1], [20, "server", 0, "device", 50, 900, 1]])
    );
    assert_eq!(
        columns(&list("holders"), &["pid", "op", "stack_id", "bytes", "count"]),
        json!([[10, "cudaMalloc", 0, 30, 2], [10, "cudaMalloc", 1, 5, 1]])
    );
    assert_eq!(
        columns(&list("failures"), &["pid", "op", "bytes", "ret"]),
        json!([[20, "cudaMalloc", 1 << 30, 2]])
    );
    assert_eq!((&answer["truncated"], answer["coverage"].is_object()), (&json!(false), true));
    // Live memory stays what it is; holders and failures are those of the time.
    let late = ask(&reader, "memory", json!({"since": "10s", "limit": 1})).unwrap();
    assert_eq!(late["usage"].as_array().unwrap().len(), 1);
    assert_eq!((&late["holders"][0]["bytes"], &late["failures"]), (&json!(5), &json!([])));
    assert_eq!(late["truncated"], true);
    assert!(refused(&reader, "memory", json!({"pid": 77})).contains("no allocations of process 77"));
}

#[test]
fn counters_of_gpus_are_told_over_time() {
    let sample = |second, gpu, sm_pct, reasons: &[&str]| GpuSample {
        time_ns: START + second * SECOND,
        gpu,
        uuid: format!("GPU-{gpu}"),
        name: "NVIDIA H200".into(),
        sm_pct: Some(sm_pct),
        power_mw: (gpu == 0).then_some(1000 * second),
        throttle_reasons: reasons.iter().map(ToString::to_string).collect(),
        processes: vec![GpuProcess { pid: 10 * (gpu + 1), memory_bytes: None }],
        ..GpuSample::default()
    };
    let gpu_samples = vec![
        sample(1, 0, 50.0, &[]),
        sample(2, 0, 100.0, &["sw_power_cap"]),
        sample(3, 0, 30.0, &["sw_power_cap", "hw_thermal"]),
        sample(4, 0, 20.0, &["hw_thermal"]),
        sample(1, 1, 1.0, &[]),
    ];
    let (_folder, reader) = trace_of(&Batch { gpu_samples, ..Batch::default() }, &Facts::default());
    let all = rows(&reader, "gpus", json!({}));
    assert_eq!(
        columns(&all, &["gpu", "metric", "unit", "last", "min", "mean", "max", "samples"]),
        json!([
            [0, "sm_pct", "%", 20.0, 20.0, 50.0, 100.0, 4],
            [0, "power_mw", "mW", 4000, 1000, 2500.0, 4000, 4],
            [0, "throttle.hw_thermal", "%", 100.0, null, 50.0, null, 4],
            [0, "throttle.sw_power_cap", "%", 0.0, null, 50.0, null, 4],
            [1, "sm_pct", "%", 1.0, 1.0, 1.0, 1.0, 1],
        ])
    );
    assert_eq!((&all[0]["uuid"], &all[0]["name"]), (&json!("GPU-0"), &json!("NVIDIA H200")));
    let late = rows(&reader, "gpus", json!({"since": "1s", "limit": 1}));
    assert_eq!(columns(&late, &["metric", "mean"]), json!([["sm_pct", 25.0]]));
    assert_eq!(columns(&rows(&reader, "gpus", json!({"pid": 20})), &["gpu"]), json!([[1]]));
    assert_eq!(columns(&rows(&reader, "gpus", json!({"gpu": 1})), &["gpu"]), json!([[1]]));
    assert!(refused(&reader, "gpus", json!({"gpu": 7})).starts_with("the trace has no GPU samples; "));
}

#[test]
fn who_is_in_the_driver_is_told_with_its_share() {
    let windows = vec![
        window(0, 4, 10, 1000),
        window(1, 4, 10, 2000),
        window(0, 5, 10, 1000),
        window(50, 4, 20, 6000),
        window(50, 1, 10, 1000),
    ];
    let batch = Batch { windows, processes: processes(), ..Batch::default() };
    let (_folder, reader) = trace_of(&batch, &Facts::default());
    let all = rows(&reader, "driver", json!({}));
    assert_eq!(
        all[0],
        json!({"pid": 20, "process": "server", "cgroup": "/other", "device": "nvidiactl", "count": 10, "ms": 0.06,
               "pct": 60.0, "oncpu_ms": 0.024, "runq_ms": 0.036, "blocked_ms": 0.0, "mean_us": 6.0, "max_us": 6.0,
               "errors": 0})
    );
    assert_eq!(
        columns(&all[1..], &["pid", "device", "count", "pct"]),
        json!([[10, "nvidiactl", 20, 30.0], [10, "nvidia-uvm", 10, 10.0]])
    );
    assert_eq!(columns(&rows(&reader, "driver", json!({"since": "5s"})), &["pid"]), json!([[20]]));
    assert!(
        refused(&reader, "driver", json!({"pid": 77})).contains("no calls into the GPU driver of process 77")
    );
}
