// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Asynchronous events of RDMA devices: their type, and never which queue pair or address they are about. */
#include "call.h"

/* Offset of event_type in struct ibv_async_event. */
#define EVENT_TYPE 8

struct async_event_record {
    struct record head; /* head.time_ns: when the call returned */
    u32 event_type;
    u32 reserved;
};

static __always_inline void async_event(struct pt_regs *regs) {
    u64 now = 0;
    struct task *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
    struct flight *flight = task ? end_flight(task, ENTRY_SP(regs, true), &now) : 0;
    struct rule *rule = flight ? rule_of(flight->rule) : 0;
    if (!rule)
        return;
    s32 ret = (s32)PT_REGS_RC(regs);
    count_and_keep(regs, task, rule, flight, ret, ret != 0, now);
    if (ret != 0)
        return;
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct async_event_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_STATE_RING);
        return;
    }
    fill_header(&out->head, RECORD_ASYNC_EVENT, now);
    out->event_type = 0;
    out->reserved = 0;
    bpf_probe_read_user(&out->event_type, sizeof(out->event_type), (void *)(flight->args[1] + EVENT_TYPE));
    bpf_ringbuf_submit(out, submit_flags(ring));
}

KEEP_TYPE(struct, async_event_record);

#define PROBE_ENTER call_enter
#define PROBE_RETURN async_event
#include "programs.h"
