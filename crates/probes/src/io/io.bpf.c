// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Disk requests of traced processes that took long or failed: who asked, which device, how long they queued.
 * A request is often issued by a kernel thread: the one who asked is remembered when its first part is
 * queued. */
#include "event.h"
#include "target.h"

/* Shorter ones are not told of. */
const volatile u64 told_ns = 1000000;

struct issuer {
    u64 queued_ns;
    u64 cgroup_id;
    u32 tgid;
    u32 tid;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, u64);
    __type(value, struct issuer);
} bios SEC(".maps");

struct issued {
    struct issuer by;
    u64 issued_ns;
    u64 sector;
    u32 bytes;
    u32 flags; /* the kernel's operation and its flags */
    u32 device;
    u32 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, u64);
    __type(value, struct issued);
} requests SEC(".maps");

/* head.time_ns is when it was queued; process and thread are those that asked. */
struct io_record {
    struct record head;
    u64 duration_ns;
    u64 queue_ns;
    u64 sector;
    u32 bytes;
    u32 flags;
    u32 device;
    s32 ret;
};

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_queue, struct bio *bio) {
    u64 id = bpf_get_current_pid_tgid(), key = (u64)bio;
    if (!target_of(id >> 32))
        return 0;
    struct issuer by = {.queued_ns = bpf_ktime_get_ns(),
                        .cgroup_id = bpf_get_current_cgroup_id(),
                        .tgid = id >> 32,
                        .tid = (u32)id};
    bpf_map_update_elem(&bios, &key, &by, BPF_ANY);
    return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_issue, struct request *request) {
    u64 bio = (u64)BPF_CORE_READ(request, bio), tail = (u64)BPF_CORE_READ(request, biotail);
    struct issuer *by = bpf_map_lookup_elem(&bios, &bio);
    if (!by)
        by = bpf_map_lookup_elem(&bios, &tail);
    if (!by)
        return 0;
    struct issued issued = {.by = *by,
                            .issued_ns = bpf_ktime_get_ns(),
                            .sector = BPF_CORE_READ(request, __sector),
                            .bytes = BPF_CORE_READ(request, __data_len),
                            .flags = BPF_CORE_READ(request, cmd_flags),
                            .device = BPF_CORE_READ(request, part, bd_dev)};
    u64 key = (u64)request;
    bpf_map_update_elem(&requests, &key, &issued, BPF_ANY);
    bpf_map_delete_elem(&bios, &bio);
    bpf_map_delete_elem(&bios, &tail);
    return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_complete, struct request *request, int error) {
    u64 key = (u64)request;
    struct issued *found = bpf_map_lookup_elem(&requests, &key);
    if (!found)
        return 0;
    struct issued issued = *found;
    bpf_map_delete_elem(&requests, &key);
    u64 now = bpf_ktime_get_ns();
    u64 ns = now - issued.by.queued_ns;
    if (ns < told_ns && !error)
        return 0;
    u32 cpu = bpf_get_smp_processor_id();
    void *ring = ring_of_cpu(cpu);
    struct io_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_TOLD_RING);
        return 0;
    }
    out->head.time_ns = issued.by.queued_ns;
    out->head.kind = RECORD_IO;
    out->head.cpu = cpu;
    out->head.tgid = issued.by.tgid;
    out->head.tid = issued.by.tid;
    out->head.reserved = 0;
    out->head.cgroup_id = issued.by.cgroup_id;
    out->duration_ns = ns;
    out->queue_ns = issued.issued_ns - issued.by.queued_ns;
    out->sector = issued.sector;
    out->bytes = issued.bytes;
    out->flags = issued.flags;
    out->device = issued.device;
    out->ret = error;
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

KEEP_TYPE(struct, io_record);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
