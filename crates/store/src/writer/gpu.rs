//! The GPU itself and the fabric: counters, users, errors.

use super::row::{insert_into, known, number, put};
use crate::schema::gpu::{GPU_ERRORS, GPU_PROCESSES, GPU_SAMPLES};
use crate::schema::kernel::RDMA_EVENTS;
use gpuwhy_model::{GpuError, GpuSample, RdmaEvent};
use rusqlite::Connection;

pub(super) fn samples(db: &Connection, samples: &[GpuSample], session_id: i64) -> rusqlite::Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &GPU_SAMPLES)?;
    for s in samples {
        put!(
            insert,
            GPU_SAMPLES,
            "timestamp_ns" = s.time_ns as i64,
            "gpu" = s.gpu,
            "uuid" = known(&s.uuid),
            "sm_pct" = s.sm_pct,
            "memory_pct" = s.memory_pct,
            "memory_used_bytes" = number(s.memory_used_bytes),
            "memory_total_bytes" = number(s.memory_total_bytes),
            "power_mw" = number(s.power_mw),
            "temperature_c" = s.temperature_c,
            "sm_clock_mhz" = s.sm_clock_mhz,
            "memory_clock_mhz" = s.memory_clock_mhz,
            "pcie_rx_bytes_per_s" = number(s.pcie_rx_bytes_per_s),
            "pcie_tx_bytes_per_s" = number(s.pcie_tx_bytes_per_s),
            "throttle_reasons" = serde_json::to_string(&s.throttle_reasons).ok(),
            "ecc_errors" = number(s.ecc_uncorrected),
            "session_id" = session_id,
            "mig" = s.mig.as_deref(),
            "name" = known(&s.name),
            "power_limit_mw" = number(s.power_limit_mw),
            "sm_clock_max_mhz" = s.sm_clock_max_mhz,
            "pcie_generation" = s.pcie_generation,
            "pcie_generation_max" = s.pcie_generation_max,
            "pcie_width" = s.pcie_width,
            "pcie_width_max" = s.pcie_width_max,
            "pcie_replays" = number(s.pcie_replays),
            "nvlink_rx_bytes_per_s" = number(s.nvlink_rx_bytes_per_s),
            "nvlink_tx_bytes_per_s" = number(s.nvlink_tx_bytes_per_s),
            "nvlink_active" = s.nvlink_active,
            "nvlink_total" = s.nvlink_total,
            "nvlink_errors" = number(s.nvlink_errors),
            "ecc_corrected" = number(s.ecc_corrected),
            "sm_occupancy_pct" = s.sm_occupancy_pct,
            "sm_active_pct" = s.sm_active_pct,
            "dram_active_pct" = s.dram_active_pct,
            "tensor_active_pct" = s.tensor_active_pct,
            "graphics_pct" = s.graphics_pct,
        );
        processes(db, s, session_id)?;
    }
    Ok(())
}

fn processes(db: &Connection, sample: &GpuSample, session_id: i64) -> rusqlite::Result<()> {
    if sample.processes.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &GPU_PROCESSES)?;
    for process in &sample.processes {
        put!(
            insert,
            GPU_PROCESSES,
            "timestamp_ns" = sample.time_ns as i64,
            "gpu" = sample.gpu,
            "mig" = sample.mig.as_deref(),
            "pid" = process.pid,
            "memory_bytes" = number(process.memory_bytes),
            "session_id" = session_id,
        );
    }
    Ok(())
}

pub(super) fn errors(db: &Connection, errors: &[GpuError], session_id: i64) -> rusqlite::Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &GPU_ERRORS)?;
    for error in errors {
        put!(
            insert,
            GPU_ERRORS,
            "timestamp_ns" = error.time_ns as i64,
            "event" = &error.event,
            "gpu" = error.gpu,
            "uuid" = known(&error.uuid),
            "code" = error.code,
            "pid" = error.pid,
            "message" = known(&error.message),
            "session_id" = session_id,
            "device" = known(&error.device),
            "source" = known(&error.source),
        );
    }
    Ok(())
}

pub(super) fn rdma(db: &Connection, events: &[RdmaEvent], session_id: i64) -> rusqlite::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &RDMA_EVENTS)?;
    for event in events {
        put!(
            insert,
            RDMA_EVENTS,
            "timestamp_ns" = event.time_ns as i64,
            "event" = &event.event,
            "pid" = event.pid,
            "tid" = event.tid,
            "device" = known(&event.device),
            "port" = event.port,
            "counter" = known(&event.counter),
            "value" = number(event.value),
            "delta" = number(event.delta),
            "session_id" = session_id,
        );
    }
    Ok(())
}
