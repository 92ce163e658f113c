//! What programs and servers say of themselves: annotations, and samples of inference servers.

use super::row::{insert_into, known, number, put};
use crate::schema::code::ANNOTATIONS;
use crate::schema::servers::SERVER_SAMPLES;
use gpuwhy_model::{Annotation, Latency, MarkState, ServerSample, Signal};
use rusqlite::{Connection, params};

pub(super) fn annotations(db: &Connection, marks: &[Annotation], session_id: i64) -> rusqlite::Result<()> {
    if marks.is_empty() {
        return Ok(());
    }
    // The index by time finds the few rows of that moment.
    let mut end = db.prepare_cached(
        "UPDATE annotations SET duration_ns = ?, state = ? WHERE timestamp_ns = ? AND pid IS ? AND uid = ? AND event = ? \
         AND value IS ? AND state = 'open' AND session_id = ?",
    )?;
    let mut insert = insert_into(db, &ANNOTATIONS)?;
    for mark in marks {
        if mark.state == MarkState::Ended {
            let changed = end.execute(params![
                number(mark.duration_ns),
                mark.state.name(),
                mark.time_ns as i64,
                mark.pid,
                mark.uid,
                mark.event,
                mark.value,
                session_id
            ])?;
            if changed > 0 {
                continue;
            }
        }
        put!(
            insert,
            ANNOTATIONS,
            "timestamp_ns" = mark.time_ns as i64,
            "duration_ns" = number(mark.duration_ns),
            "event" = &mark.event,
            "value" = mark.value.as_deref(),
            "labels" = serde_json::to_string(&mark.labels).ok(),
            "pid" = mark.pid,
            "session_id" = session_id,
            "state" = mark.state.name(),
            "clock" = mark.clock.name(),
            "uid" = mark.uid,
        );
    }
    Ok(())
}

pub(super) fn servers(db: &Connection, samples: &[ServerSample], session_id: i64) -> rusqlite::Result<()> {
    if samples.is_empty() {
        return Ok(());
    }
    let mut insert = insert_into(db, &SERVER_SAMPLES)?;
    for s in samples {
        macro_rules! latency {
            ($signal:expr, $count:literal, $mean:literal, $p50:literal, $p99:literal, $buckets:literal) => {{
                let latency = s.latencies.get(&$signal);
                let quantile = |q| latency.and_then(|latency| latency.quantile(q)).map(|found| found.us);
                let place = |at: usize| at + 1;
                insert.raw_bind_parameter(
                    place(const { SERVER_SAMPLES.place($count) }),
                    latency.map(|latency| latency.count as i64),
                )?;
                insert.raw_bind_parameter(
                    place(const { SERVER_SAMPLES.place($mean) }),
                    latency.and_then(Latency::mean_us),
                )?;
                insert.raw_bind_parameter(place(const { SERVER_SAMPLES.place($p50) }), quantile(0.5))?;
                insert.raw_bind_parameter(place(const { SERVER_SAMPLES.place($p99) }), quantile(0.99))?;
                insert.raw_bind_parameter(
                    place(const { SERVER_SAMPLES.place($buckets) }),
                    latency.and_then(buckets),
                )?;
            }};
        }
        latency!(Signal::Ttft, "ttft_count", "ttft_mean_us", "ttft_p50_us", "ttft_p99_us", "ttft_buckets");
        latency!(Signal::Itl, "itl_count", "itl_mean_us", "itl_p50_us", "itl_p99_us", "itl_buckets");
        latency!(Signal::E2e, "e2e_count", "e2e_mean_us", "e2e_p50_us", "e2e_p99_us", "e2e_buckets");
        latency!(
            Signal::Queue,
            "queue_count",
            "queue_mean_us",
            "queue_p50_us",
            "queue_p99_us",
            "queue_buckets"
        );
        put!(
            insert,
            SERVER_SAMPLES,
            "timestamp_ns" = s.time_ns as i64,
            "window_ns" = s.window_ns as i64,
            "server" = &s.server,
            "url" = &s.url,
            "pid" = s.pid,
            "model" = known(&s.model),
            "running" = s.running,
            "waiting" = s.waiting,
            "kv_cache_pct" = s.kv_cache_pct,
            "preemptions" = number(s.preemptions),
            "requests" = number(s.requests),
            "prompt_tokens_per_s" = s.prompt_tokens_per_s,
            "generation_tokens_per_s" = s.generation_tokens_per_s,
            "spec_accept_pct" = s.spec_accept_pct,
            "session_id" = session_id,
        );
    }
    Ok(())
}

/// Nothing where the server tells sums only.
fn buckets(latency: &Latency) -> Option<String> {
    let rows: Vec<_> =
        latency.buckets.iter().map(|bucket| (bucket.lower_us, bucket.upper_us, bucket.count)).collect();
    (!rows.is_empty()).then(|| serde_json::to_string(&rows).ok())?
}
