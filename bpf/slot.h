/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters for things that come and go (streams, functions), found fast: a hash gives each a place in an
 * array, and a thread remembers the places it used lately. Places of dead processes are given anew. */
#pragma once

#include "event.h"
#include "rule.h"

#define STREAM_SLOTS 4096
#define FUNCTION_SLOTS 65536

struct slot_key {
    u32 tgid;
    u32 tid; /* where each thread has one of its own; else 0 */
    u64 handle;
};

enum slot_kind { SLOT_STREAM, SLOT_FUNCTION, SLOT_KINDS };

/* Places given out so far; the first is never given: 0 means none. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, SLOT_KINDS);
    __type(key, u32);
    __type(value, u32);
} slots_used SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, STREAM_SLOTS);
    __type(value, u32);
} stream_slots_free SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, FUNCTION_SLOTS);
    __type(value, u32);
} function_slots_free SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, STREAM_SLOTS);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct slot_key);
    __type(value, u32);
} stream_index SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FUNCTION_SLOTS);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct slot_key);
    __type(value, u32);
} function_index SEC(".maps");

static __always_inline u32 new_slot(void *freed, u32 kind, u32 most) {
    u32 slot = 0;
    if (!bpf_map_pop_elem(freed, &slot))
        return slot;
    u32 *used = bpf_map_lookup_elem(&slots_used, &kind);
    if (!used || *used + 1 >= most) {
        count_loss(LOSS_SLOTS);
        return 0;
    }
    return __sync_fetch_and_add(used, 1) + 1;
}

/* The place of a key, given now if it is new, and whether it is. */
static __always_inline u32 slot_of(void *index, const struct slot_key *key, void *freed, u32 kind, u32 most,
                                   bool *fresh) {
    u32 *known = bpf_map_lookup_elem(index, key);
    if (known)
        return *known;
    u32 slot = new_slot(freed, kind, most);
    if (!slot)
        return 0;
    if (bpf_map_update_elem(index, key, &slot, BPF_NOEXIST)) {
        /* Another thread was faster. */
        bpf_map_push_elem(freed, &slot, 0);
        known = bpf_map_lookup_elem(index, key);
        return known ? *known : 0;
    }
    *fresh = true;
    return slot;
}

/* Handles are addresses: their lowest bits say nothing. */
static __always_inline u32 cache_place(u64 handle, u32 places) {
    return (handle >> 4 ^ handle >> 10) & (places - 1);
}

KEEP_TYPE(enum, slot_kind);
