/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Python interpreters of traced processes, as user space found them: where their structures are, and the lock
 * that lets one thread run at a time. */
#pragma once

#include "kernel.h"

/* Offsets in bytes, see the crate `python`. */
struct python {
    u64 runtime;
    u64 gil;       /* its address; 0 where there is none */
    u64 code_mask; /* of pointers to code */
    u32 gil_bytes;
    u32 gil_last_holder;
    u32 interpreters_head;
    u32 interp_next;
    u32 interp_threads_head;
    u32 tstate_next;
    u32 tstate_thread_id;
    u32 tstate_native_thread_id;
    u32 tstate_status;
    u32 tstate_active_mask;
    u32 tstate_frame;
    u32 frame_via; /* enum frame_via */
    u32 cframe_current_frame;
    u32 frame_code;
    u32 frame_previous;
    u32 frame_instr;
    u32 instr_kind; /* enum instr_kind */
    u32 frame_owner;
    u32 owner_shim; /* owners from here on mark a frame that is no Python function */
    u32 frame_is_entry;
    u32 code_filename;
    u32 code_name;
    u32 code_firstlineno;
    u32 code_linetable;
    u32 code_adaptive;
    u32 unicode_length;
    u32 unicode_state;
    u32 unicode_ascii_data;
    u32 unicode_compact_data;
    u32 unicode_ascii_mask;
    u32 bytes_size;
    u32 bytes_data;
    u32 frame_tlbc_index;
    u32 code_tlbc;
    u32 tlbc_entries;
    u32 tstate_interp;
    u32 interp_collecting; /* 0 where it is not known */
    u32 reserved;
};

enum frame_via { FRAME_OBJECT, FRAME_CFRAME, FRAME_DIRECT };
enum instr_kind { INSTR_LASTI_BYTES, INSTR_LASTI_UNITS, INSTR_PREV, INSTR_PTR };

/* By process. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct python);
} pythons SEC(".maps");

static __always_inline bool is_gil(const struct python *python, u64 futex) {
    return python->gil && futex >= python->gil && futex < python->gil + python->gil_bytes;
}

/* The thread that had the lock last, by its number in its own name space; 0 where that is not known. */
static __always_inline u32 gil_holder(const struct python *python) {
    u64 thread = 0, tid = 0;
    bpf_probe_read_user(&thread, sizeof(thread), (void *)(python->gil + python->gil_last_holder));
    if (!thread || !python->tstate_native_thread_id)
        return 0;
    bpf_probe_read_user(&tid, sizeof(tid), (void *)(thread + python->tstate_native_thread_id));
    return tid;
}

KEEP_TYPE(struct, python);
KEEP_TYPE(enum, frame_via);
KEEP_TYPE(enum, instr_kind);
