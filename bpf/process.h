/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records about processes: the process probe writes them, and the first traced call of a process. */
#pragma once

#include "event.h"

/* The order is that of model's `ProcessEventKind`. */
enum process_event {
    PROCESS_SEEN,
    PROCESS_FORK,
    PROCESS_THREAD,
    PROCESS_EXEC,
    PROCESS_EXIT,
    PROCESS_THREAD_EXIT,
};

struct process_record {
    struct record head;
    u32 event; /* enum process_event */
    u32 child;
    s32 exit_code;
    u32 waits_only; /* it is followed, but its calls are not traced so far */
    char comm[COMM_LEN];
};

static __always_inline void emit_process(u32 event, u32 child, s32 exit_code, bool waits_only) {
    u64 now = bpf_ktime_get_ns();
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct process_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_PROCESS_RING);
        return;
    }
    fill_header(&out->head, RECORD_PROCESS, now);
    out->event = event;
    out->child = child;
    out->exit_code = exit_code;
    out->waits_only = waits_only;
    bpf_get_current_comm(out->comm, sizeof(out->comm));
    /* What user space reads of a new process is gone when it ends, which may be soon. */
    bpf_ringbuf_submit(out, event == PROCESS_SEEN ? BPF_RB_FORCE_WAKEUP : submit_flags(ring));
}

KEEP_TYPE(enum, process_event);
KEEP_TYPE(struct, process_record);
