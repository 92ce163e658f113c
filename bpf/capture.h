/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Captures: while a stream is captured, what goes to it becomes a node of a graph instead of running. Other
 * streams join by waiting for an event of it. Nothing is looked up while nobody captures. */
#pragma once

#include "slot.h"

struct capture_counts {
    u32 open;
    u32 reserved;
    u64 latest;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct capture_counts);
} capture_counts SEC(".maps");

/* Whose each open capture is, by its number. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u64);
    __type(value, u32);
} open_captures SEC(".maps");

/* The capture a stream, or an event recorded on it, is in or was in last. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct slot_key);
    __type(value, u64);
} captured SEC(".maps");

static __always_inline struct capture_counts *captures(void) {
    u32 zero = 0;
    return bpf_map_lookup_elem(&capture_counts, &zero);
}

/* The open capture that a stream or event belongs to, or 0. */
static __always_inline u64 capture_of(u32 tgid, u64 handle) {
    struct capture_counts *counts = captures();
    if (!counts || !counts->open)
        return 0;
    struct slot_key key = {.tgid = tgid, .handle = handle};
    u64 *number = bpf_map_lookup_elem(&captured, &key);
    return number && bpf_map_lookup_elem(&open_captures, number) ? *number : 0;
}

static __always_inline void join_capture(u32 tgid, u64 handle, u64 number) {
    struct slot_key key = {.tgid = tgid, .handle = handle};
    bpf_map_update_elem(&captured, &key, &number, BPF_ANY);
}

static __always_inline u64 begin_capture(u32 tgid, u64 stream) {
    struct capture_counts *counts = captures();
    if (!counts)
        return 0;
    u64 number = __sync_fetch_and_add(&counts->latest, 1) + 1;
    if (bpf_map_update_elem(&open_captures, &number, &tgid, BPF_ANY)) {
        count_loss(LOSS_SLOTS);
        return 0;
    }
    __sync_fetch_and_add(&counts->open, 1);
    join_capture(tgid, stream, number);
    return number;
}

static __always_inline void end_capture(u64 number) {
    struct capture_counts *counts = captures();
    if (counts && number && !bpf_map_delete_elem(&open_captures, &number))
        __sync_fetch_and_add(&counts->open, -1);
}

KEEP_TYPE(struct, capture_counts);
