//! Taking finished windows out of the kernel's maps.

use crate::call::decode_window;
use crate::raw::{self, read};
use crate::sched;
use gpuwhy_model::{CallWindow, Wait};
use libbpf_rs::{MapCore, MapHandle};

pub(super) fn take_windows(map: &MapHandle, before: u32, clock_offset_ns: u64) -> Vec<CallWindow> {
    let mut windows = Vec::new();
    for bytes in map.keys().collect::<Vec<_>>() {
        let Some(key) = read::<raw::cuda::window_key>(&bytes) else { continue };
        if key.window < before
            && let Ok(Some(value)) = map.lookup_and_delete(&bytes)
        {
            windows.extend(decode_window(&key, &value, clock_offset_ns));
        }
    }
    windows
}

pub(super) fn take_waits(map: &MapHandle, before: u32, clock_offset_ns: u64) -> Vec<Wait> {
    let mut waits = Vec::new();
    for bytes in map.keys().collect::<Vec<_>>() {
        let Some(key) = read::<raw::sched::wait_key>(&bytes) else { continue };
        if key.window < before
            && let Ok(Some(value)) = map.lookup_and_delete(&bytes)
        {
            waits.extend(sched::decode_wait(&bytes, &value, clock_offset_ns));
        }
    }
    waits
}
