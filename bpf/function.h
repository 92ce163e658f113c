/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches by function: every kernel and every executable graph of every process has its own exact count. */
#pragma once

#include "slot.h"

struct function_state {
    u64 handle;
    u32 tgid;
    u32 graph; /* 1 for an executable graph */
    u64 count;
    u64 sum_ns;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, FUNCTION_SLOTS);
    __type(key, u32);
    __type(value, struct function_state);
} functions SEC(".maps");

static __always_inline u32 function_slot(struct task *task, u32 tgid, u64 handle, bool graph, bool *fresh) {
    u32 place = cache_place(handle, CACHED_FUNCTIONS);
    barrier_var(place);
    struct cached *cached = &task->functions[place & (CACHED_FUNCTIONS - 1)];
    if (cached->key == handle && cached->slot)
        return cached->slot;
    struct slot_key key = {.tgid = tgid, .handle = handle};
    u32 slot = slot_of(&function_index, &key, &function_slots_free, SLOT_FUNCTION, FUNCTION_SLOTS, fresh);
    if (!slot)
        return 0;
    if (*fresh) {
        struct function_state *state = bpf_map_lookup_elem(&functions, &slot);
        if (state)
            *state = (struct function_state){.handle = handle, .tgid = tgid, .graph = graph};
    }
    cached->key = handle;
    cached->slot = slot;
    return slot;
}

/* Counts a launch that has returned; whether it was the first of its function. */
static __always_inline bool count_launch(struct task *task, u32 tgid, u64 handle, bool graph, u64 ns) {
    bool fresh = false;
    u32 slot = function_slot(task, tgid, handle, graph, &fresh);
    struct function_state *state = slot ? bpf_map_lookup_elem(&functions, &slot) : 0;
    if (!state)
        return false;
    __sync_fetch_and_add(&state->count, 1);
    __sync_fetch_and_add(&state->sum_ns, ns);
    return fresh;
}

/* Names of kernels by the host's stub, as compiled programs register them at their start: too many to send.
 * User space looks up the few that are launched. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 131072);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct slot_key);
    __type(value, u64); /* where the name is */
} registrations SEC(".maps");

/* Where CUDA's functions and kernels point to their name; user space changes it where a driver differs. */
enum function_layout { FUNCTION_NAME_OFFSET = 8 };
volatile u64 function_name_offset = FUNCTION_NAME_OFFSET;

/* Where the name of a launched function is, as far as anybody can tell; it may turn out to be something else.
 */
static __always_inline u64 name_of_function(u32 tgid, u64 handle) {
    struct slot_key key = {.tgid = tgid, .handle = handle};
    u64 *registered = bpf_map_lookup_elem(&registrations, &key);
    return registered ? *registered : read_u64(handle + function_name_offset);
}

KEEP_TYPE(enum, function_layout);
KEEP_TYPE(struct, function_state);
