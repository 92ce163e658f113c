/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records to user space: the header they share, the sharded rings they go through, and the loss counters that
 * say what did not get through. */
#pragma once

#include "kernel.h"

enum record_kind {
    RECORD_CALL = 1,
    RECORD_PROCESS = 3,
    RECORD_CALL_NAMED = 4,
    RECORD_NCCL = 5,
    RECORD_COMPLETION = 6,
    RECORD_XID = 7,
    RECORD_ASYNC_EVENT = 8,
    RECORD_WAIT = 9,
    RECORD_OOM = 10,
    RECORD_IO = 11,
    RECORD_TCP = 12,
    RECORD_STACK = 13,
    RECORD_STACK_PART = 14,
    RECORD_CODE = 15,
    RECORD_DEBT = 16,
    RECORD_CPU_SAMPLE = 17,
};

/* Every record begins with this. */
struct record {
    u64 time_ns; /* CLOCK_MONOTONIC */
    u16 kind;    /* enum record_kind */
    u16 cpu;
    u32 tgid;
    u32 tid;
    u32 reserved;
    u64 cgroup_id;
};

/* Where something can get lost. Names are in probes/src/load/loss.rs. */
enum loss {
    LOSS_RING_FULL,    /* a kept call found no room */
    LOSS_WINDOWS_FULL, /* a call could not be counted */
    LOSS_WAITS_FULL,   /* a wait could not be billed */
    LOSS_TASKS_FULL,   /* a thread could not be followed */
    LOSS_TARGETS_FULL, /* a process could not be followed */
    LOSS_DEPTH,        /* calls nested too deep */
    LOSS_PROCESS_RING, /* a process event found no room */
    LOSS_SLOTS,        /* a stream, function or communicator could not be followed */
    LOSS_STATE_RING,   /* what the ledger needs found no room */
    LOSS_TOLD_RING,    /* an event of the host found no room */
    LOSS_STACK_RING,   /* a stack found no room */
    LOSS_SAMPLE_RING,  /* a sample of running code found no room */
    LOSS_KINDS,
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, LOSS_KINDS);
    __type(key, u32);
    __type(value, u64);
} losses SEC(".maps");

struct ring {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
};

/* One ring saturates near two million records a second with many CPUs: each shard serves a few of them. The
 * loader makes the inner rings and their size. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, 1);
    __type(key, u32);
    __array(values, struct ring);
} rings SEC(".maps");

const volatile u32 ring_mask = 0;
/* The reader is woken when so much has gathered, not for each record: so many times for a whole ring. */
#define RING_WAKES 8
const volatile u64 ring_wake_bytes = 64 * 1024;

/* Atomic: a uprobe program can be preempted by another one on the same CPU (6.0 and newer). */
static __always_inline void count_loss(u32 kind) {
    u64 *count = bpf_map_lookup_elem(&losses, &kind);
    if (count)
        __sync_fetch_and_add(count, 1);
}

static __always_inline void *ring_of_cpu(u32 cpu) {
    u32 shard = cpu & ring_mask;
    return bpf_map_lookup_elem(&rings, &shard);
}

static __always_inline u64 submit_flags(void *ring) {
    return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >= ring_wake_bytes ? BPF_RB_FORCE_WAKEUP
                                                                         : BPF_RB_NO_WAKEUP;
}

static __always_inline void fill_header(struct record *record, u16 kind, u64 time_ns) {
    u64 id = bpf_get_current_pid_tgid();
    record->time_ns = time_ns;
    record->kind = kind;
    record->cpu = bpf_get_smp_processor_id();
    record->tgid = id >> 32;
    record->tid = (u32)id;
    record->reserved = 0;
    record->cgroup_id = bpf_get_current_cgroup_id();
}

KEEP_TYPE(enum, record_kind);
KEEP_TYPE(enum, loss);
