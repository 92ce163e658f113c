//! The GPU and the fabric: samples, users, errors, counters.

use crate::made::{START, lines, trace};
use gpuwhy_model::{Batch, Facts, GpuError, GpuProcess, GpuSample, RdmaEvent};

fn sample() -> GpuSample {
    GpuSample {
        time_ns: START,
        gpu: 3,
        uuid: "GPU-1".into(),
        mig: Some("1/0".into()),
        name: "NVIDIA H200".into(),
        sm_pct: Some(98.5),
        memory_pct: Some(40.0),
        memory_used_bytes: Some(1),
        memory_total_bytes: Some(2),
        power_mw: Some(3),
        power_limit_mw: Some(4),
        temperature_c: Some(5),
        sm_clock_mhz: Some(6),
        sm_clock_max_mhz: Some(7),
        memory_clock_mhz: Some(8),
        throttle_reasons: vec!["hw_thermal".into(), "sw_power_cap".into()],
        pcie_rx_bytes_per_s: Some(9),
        pcie_tx_bytes_per_s: Some(10),
        pcie_generation: Some(11),
        pcie_generation_max: Some(12),
        pcie_width: Some(13),
        pcie_width_max: Some(14),
        pcie_replays: Some(15),
        nvlink_rx_bytes_per_s: Some(16),
        nvlink_tx_bytes_per_s: Some(17),
        nvlink_active: Some(18),
        nvlink_total: Some(19),
        nvlink_errors: Some(20),
        ecc_corrected: Some(21),
        ecc_uncorrected: Some(22),
        sm_occupancy_pct: Some(23.5),
        sm_active_pct: Some(24.5),
        dram_active_pct: Some(25.5),
        tensor_active_pct: Some(26.5),
        graphics_pct: Some(27.5),
        processes: vec![
            GpuProcess { pid: 10, memory_bytes: Some(4096) },
            GpuProcess { pid: 11, memory_bytes: None },
        ],
    }
}

#[test]
fn a_sample_is_kept_with_all_its_counters() {
    let bare = GpuSample { time_ns: START + 1, gpu: 0, ..GpuSample::default() };
    let batch = Batch { gpu_samples: vec![sample(), bare], ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, gpu, uuid, mig, name, sm_pct, memory_pct, memory_used_bytes, memory_total_bytes, \
             power_mw, power_limit_mw, temperature_c, sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz, \
             throttle_reasons, pcie_rx_bytes_per_s, pcie_tx_bytes_per_s, pcie_generation, pcie_generation_max, \
             pcie_width, pcie_width_max, pcie_replays, nvlink_rx_bytes_per_s, nvlink_tx_bytes_per_s, nvlink_active, \
             nvlink_total, nvlink_errors, ecc_corrected, ecc_errors, sm_occupancy_pct, sm_active_pct, \
             dram_active_pct, tensor_active_pct, graphics_pct FROM gpu_samples WHERE gpu = 3"
        ),
        [
            "+0|3|GPU-1|1/0|NVIDIA H200|98.5|40|1|2|3|4|5|6|7|8|[\"hw_thermal\",\"sw_power_cap\"]|9|10|11|12|13|14|15|\
             16|17|18|19|20|21|22|23.5|24.5|25.5|26.5|27.5"
        ]
    );
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, uuid, sm_pct, ecc_errors, throttle_reasons FROM gpu_samples WHERE gpu = 0"
        ),
        ["+1|-|-|-|[]"]
    );
    assert_eq!(
        lines(&reader, "SELECT timestamp_ns, gpu, mig, pid, memory_bytes FROM gpu_processes ORDER BY pid"),
        ["+0|3|1/0|10|4096", "+0|3|1/0|11|-"]
    );
    assert_eq!(reader.newest_ns().unwrap(), Some(START + 1));
}

#[test]
fn errors_and_risen_counters_are_events() {
    let error = GpuError {
        time_ns: START,
        event: "xid".into(),
        gpu: Some(3),
        uuid: "GPU-1".into(),
        device: "0000:17:00".into(),
        code: 79,
        pid: Some(10),
        message: "GPU has fallen off the bus".into(),
        source: "tracepoint".into(),
    };
    let risen = RdmaEvent {
        time_ns: START + 1,
        event: "counter".into(),
        device: "mlx5_0".into(),
        port: Some(1),
        counter: "symbol_error".into(),
        value: Some(9),
        delta: Some(4),
        pid: None,
        tid: None,
    };
    let port = RdmaEvent {
        time_ns: START + 2,
        event: "IBV_EVENT_PORT_ERR".into(),
        pid: Some(10),
        tid: Some(11),
        ..RdmaEvent::default()
    };
    let batch = Batch { gpu_errors: vec![error], rdma_events: vec![risen, port], ..Batch::default() };
    let (_folder, reader) = trace(&batch, &Facts::default());
    assert_eq!(
        lines(
            &reader,
            "SELECT timestamp_ns, event, gpu, uuid, device, code, pid, message, source FROM gpu_errors"
        ),
        ["+0|xid|3|GPU-1|0000:17:00|79|10|GPU has fallen off the bus|tracepoint"]
    );
    assert_eq!(
        lines(&reader, "SELECT event, device, port, counter, value, delta, pid, tid FROM rdma_events"),
        ["counter|mlx5_0|1|symbol_error|9|4|-|-", "IBV_EVENT_PORT_ERR|-|-|-|-|-|10|11"]
    );
    assert_eq!(
        lines(&reader, "SELECT layer, op, pid FROM events ORDER BY timestamp_ns"),
        ["gpu|xid|10", "rdma|counter|-", "rdma|IBV_EVENT_PORT_ERR|10"]
    );
}
