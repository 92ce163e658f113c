// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Errors the NVIDIA driver reports (Xid), through its own tracepoint. */
#include "event.h"

#define DEVICE_LEN 32
#define MESSAGE_LEN 256

struct xid_record {
    struct record head;
    u32 code;
    u32 reserved;
    char device[DEVICE_LEN];
    char message[MESSAGE_LEN];
};

/* As the tracepoint's format says; strings lie behind, at the offset in the lower half of their word. */
struct xid_event {
    u64 common;
    u32 device_at;
    u32 code;
    u32 message_at;
};

SEC("tracepoint/nvidia/nvidia_dev_xid")
int on_xid(struct xid_event *ctx) {
    u64 now = bpf_ktime_get_ns();
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct xid_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_STATE_RING);
        return 0;
    }
    fill_header(&out->head, RECORD_XID, now);
    out->code = ctx->code;
    out->reserved = 0;
    bpf_probe_read_kernel_str(out->device, sizeof(out->device), (void *)ctx + (ctx->device_at & 0xffff));
    bpf_probe_read_kernel_str(out->message, sizeof(out->message), (void *)ctx + (ctx->message_at & 0xffff));
    /* The reader need not wait for others to fill the ring. */
    bpf_ringbuf_submit(out, BPF_RB_FORCE_WAKEUP);
    return 0;
}

KEEP_TYPE(struct, xid_record);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
