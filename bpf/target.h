/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which processes are traced. Probes are attached system-wide, by file; this is the filter behind them. */
#pragma once

#include "event.h"

enum target_flags {
    TARGET_FOLLOW = 1,   /* its children are targets as it is */
    TARGET_SEEN = 2,     /* it made a traced call, and user space was told */
    TARGET_WAITS = 4,    /* followed for its waits: its calls are traced only if the scope says so */
    TARGET_WAKER = 8,    /* it woke a thread of another target */
    TARGET_OUTSIDE = 16, /* it is there for that alone: its children are not followed */
};

/* By process. User space puts in what was asked for and who wakes traced threads; the kernel adds children
 * and, when every process is wanted, whoever makes a traced call. The process probe removes the dead. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, u32);
} targets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} target_cgroup SEC(".maps");

enum target_scope { SCOPE_LISTED, SCOPE_ALL, SCOPE_CGROUP };

const volatile u32 target_scope = SCOPE_ALL;

/* The flags of a process, or none where it is not traced. */
static __always_inline u32 *target_of(u32 tgid) {
    return bpf_map_lookup_elem(&targets, &tgid);
}

/* What a child of a target is; 0 for none. */
static __always_inline u32 flags_of_child(u32 parent) {
    if (parent & TARGET_OUTSIDE)
        return 0;
    return parent & TARGET_FOLLOW ? TARGET_FOLLOW : TARGET_WAITS;
}

/* The agent itself: it asks the driver for counters, and is no program that anybody wants to know about. */
const volatile u32 own_tgid = 0;

/* Makes the current process a target if the scope says so. */
static __always_inline u32 *target_current(u32 tgid) {
    u32 *flags = target_of(tgid);
    if (flags && !(*flags & TARGET_WAITS))
        return flags;
    if (target_scope == SCOPE_LISTED || tgid == own_tgid)
        return 0;
    if (target_scope == SCOPE_CGROUP && bpf_current_task_under_cgroup(&target_cgroup, 0) != 1)
        return 0;
    if (flags) {
        __sync_fetch_and_and(flags, ~TARGET_WAITS);
        return flags;
    }
    u32 none = 0;
    if (bpf_map_update_elem(&targets, &tgid, &none, BPF_NOEXIST) == -7 /* E2BIG */)
        count_loss(LOSS_TARGETS_FULL);
    return target_of(tgid);
}

KEEP_TYPE(enum, target_flags);
KEEP_TYPE(enum, target_scope);
