//! Streams and functions as the kernel counts them: what changed is read when a window is over, and what belonged to
//! processes that are gone is given back.

use super::error::LoadError;
use super::object::SharedMaps;
use crate::raw::{bytes_of, cuda as raw, read};
use crate::stream::{decode_function, decode_stream};
use gpuwhy_model::{Batch, LaunchCount, StreamState};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::HashMap;

/// What was read last, by place.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    streams: HashMap<u32, StreamState>,
    functions: HashMap<u32, LaunchCount>,
}

impl Slots {
    /// Adds to the batch the streams and functions that changed.
    pub(crate) fn read(
        &mut self,
        maps: &SharedMaps,
        batch: &mut Batch,
        now_ns: u64,
        clock_offset_ns: u64,
    ) -> Result<(), LoadError> {
        for slot in 1..=used(maps, raw::SLOT_STREAM)? {
            let Some(bytes) = at(maps.get("streams")?, slot) else { continue };
            let Some(state) = decode_stream(slot, &bytes, now_ns, clock_offset_ns) else { continue };
            let last = self.streams.get(&slot);
            let changed = last.is_none_or(|last| {
                (last.pid, last.stream, last.submitted, last.busy_upper_ns, last.busy_lower_ns)
                    != (state.pid, state.stream, state.submitted, state.busy_upper_ns, state.busy_lower_ns)
            });
            if changed {
                batch.streams.push(state.clone());
                self.streams.insert(slot, state);
            }
        }
        for slot in 1..=used(maps, raw::SLOT_FUNCTION)? {
            let Some(bytes) = at(maps.get("functions")?, slot) else { continue };
            let Some(count) = decode_function(&bytes, now_ns.wrapping_add(clock_offset_ns)) else { continue };
            if self.functions.get(&slot).is_none_or(|last| last.count != count.count || last.pid != count.pid)
            {
                batch.launch_counts.push(count.clone());
                self.functions.insert(slot, count);
            }
        }
        Ok(())
    }

    /// Gives back the places of a process that is gone.
    pub(crate) fn forget(&mut self, maps: &SharedMaps, pid: u32) -> Result<(), LoadError> {
        let streams: Vec<u32> =
            self.streams.iter().filter(|(_, state)| state.pid == pid).map(|(slot, _)| *slot).collect();
        for slot in streams {
            let Some(state) = self.streams.remove(&slot) else { continue };
            let key = raw::slot_key { tgid: pid, tid: state.tid, handle: state.stream };
            give_back(maps, "stream_index", "streams", "stream_slots_free", &key, slot)?;
        }
        let functions: Vec<u32> =
            self.functions.iter().filter(|(_, count)| count.pid == pid).map(|(slot, _)| *slot).collect();
        for slot in functions {
            let Some(count) = self.functions.remove(&slot) else { continue };
            let key = raw::slot_key { tgid: pid, tid: 0, handle: count.handle };
            give_back(maps, "function_index", "functions", "function_slots_free", &key, slot)?;
        }
        // What is not there need not go.
        let _ = maps.get("process_streams")?.delete(&pid.to_ne_bytes());
        close_captures(maps, pid)?;
        for name in ["communicators", "registrations"] {
            let Ok(map) = maps.get(name) else { continue };
            for key in map.keys().filter(|key| key.starts_with(&pid.to_ne_bytes())).collect::<Vec<_>>() {
                let _ = map.delete(&key);
            }
        }
        Ok(())
    }
}

/// How many places of a kind were ever given out.
fn used(maps: &SharedMaps, kind: u32) -> Result<u32, LoadError> {
    Ok(at(maps.get("slots_used")?, kind)
        .and_then(|bytes| Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)))
        .unwrap_or(0))
}

fn at(map: &MapHandle, slot: u32) -> Option<Vec<u8>> {
    map.lookup(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten()
}

fn give_back(
    maps: &SharedMaps,
    index: &str,
    values: &str,
    free: &str,
    key: &raw::slot_key,
    slot: u32,
) -> Result<(), LoadError> {
    let values = maps.get(values)?;
    let _ = maps.get(index)?.delete(bytes_of(key));
    let empty = vec![0u8; values.value_size() as usize];
    let internal =
        |error: libbpf_rs::Error| LoadError::Internal(format!("a place cannot be given back: {error}"));
    values.update(&slot.to_ne_bytes(), &empty, MapFlags::ANY).map_err(internal)?;
    maps.get(free)?.update(&[], &slot.to_ne_bytes(), MapFlags::ANY).map_err(internal)
}

/// A process that died while it captured must not keep the kernel looking for its captures.
fn close_captures(maps: &SharedMaps, pid: u32) -> Result<(), LoadError> {
    let open = maps.get("open_captures")?;
    let mut closed = 0;
    for number in open.keys().collect::<Vec<_>>() {
        let owner = open.lookup(&number, MapFlags::ANY).ok().flatten();
        if owner.as_deref() == Some(&pid.to_ne_bytes()[..]) && open.delete(&number).is_ok() {
            closed += 1;
        }
    }
    if closed > 0 {
        let counts = maps.get("capture_counts")?;
        if let Some(mut value) = at(counts, 0).and_then(|bytes| read::<raw::capture_counts>(&bytes)) {
            value.open = value.open.saturating_sub(closed);
            let _ = counts.update(&0u32.to_ne_bytes(), bytes_of(&value), MapFlags::ANY);
        }
    }
    Ok(())
}
