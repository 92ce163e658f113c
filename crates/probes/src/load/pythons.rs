//! Python interpreters of traced processes, told to the kernel: with this it reads their stacks and knows their lock.

use super::{Engine, LoadError};
use crate::raw::bytes_of;
use crate::raw::cuda as raw;
use gpuwhy_python::{Interpreter, Layout};
use libbpf_rs::{MapCore, MapFlags};

impl Engine {
    /// From now on the process's Python stacks are read. `gil` is where its lock is, 0 where there is none.
    pub fn add_python(&self, pid: u32, interpreter: &Interpreter, gil: u64) -> Result<(), LoadError> {
        // Without a probe that reads them there is nobody to tell.
        let Ok(pythons) = self.maps.get("pythons") else { return Ok(()) };
        let value = reported(interpreter.runtime, &interpreter.layout, gil);
        pythons
            .update(&pid.to_ne_bytes(), bytes_of(&value), MapFlags::ANY)
            .map_err(|error| LoadError::Internal(format!("pythons: {error}")))
    }

    pub fn forget_python(&self, pid: u32) {
        if let Ok(map) = self.maps.get("pythons") {
            // It may never have been one.
            let _ = map.delete(&pid.to_ne_bytes());
        }
    }
}

fn reported(runtime: u64, layout: &Layout, gil: u64) -> raw::python {
    raw::python {
        runtime,
        gil,
        code_mask: layout.frame_code_mask,
        gil_bytes: layout.gil_bytes,
        gil_last_holder: layout.gil_last_holder,
        interpreters_head: layout.interpreters_head,
        interp_next: layout.interp_next,
        interp_threads_head: layout.interp_threads_head,
        tstate_next: layout.tstate_next,
        tstate_thread_id: layout.tstate_thread_id,
        tstate_native_thread_id: layout.tstate_native_thread_id,
        tstate_status: layout.tstate_status,
        tstate_active_mask: layout.tstate_active_mask,
        tstate_frame: layout.tstate_frame,
        frame_via: layout.frame_via as u32,
        cframe_current_frame: layout.cframe_current_frame,
        frame_code: layout.frame_code,
        frame_previous: layout.frame_previous,
        frame_instr: layout.frame_instr,
        instr_kind: layout.instr_kind as u32,
        frame_owner: layout.frame_owner,
        owner_shim: layout.owner_shim,
        frame_is_entry: layout.frame_is_entry,
        code_filename: layout.code_filename,
        code_name: match layout.code_qualname {
            0 => layout.code_name,
            qualified => qualified,
        },
        code_firstlineno: layout.code_firstlineno,
        code_linetable: layout.code_linetable,
        code_adaptive: layout.code_adaptive,
        unicode_length: layout.unicode_length,
        unicode_state: layout.unicode_state,
        unicode_ascii_data: layout.unicode_ascii_data,
        unicode_compact_data: layout.unicode_compact_data,
        unicode_ascii_mask: layout.unicode_ascii_mask,
        bytes_size: layout.bytes_size,
        bytes_data: layout.bytes_data,
        frame_tlbc_index: layout.frame_tlbc_index,
        code_tlbc: layout.code_tlbc,
        tlbc_entries: layout.tlbc_entries,
        tstate_interp: layout.tstate_interp,
        interp_collecting: layout.interp_gc + layout.gc_collecting,
        reserved: 0,
    }
}
