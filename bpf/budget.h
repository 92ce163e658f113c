/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What being watched costs a thread, and what is done about it at once. Every trap is charged to a debt that
 * drains at the rate of the budget. Calls of a class that may be frequent are counted in slices of time: user
 * space opens one, and it ends at the time that was set, or at once when a thread's debt has grown too large.
 * Between slices the probes are detached; a call that still traps then costs its entry and counts nothing, so
 * a slice is exact whatever attaching and detaching take. */
#pragma once

#include "blame.h"
#include "event.h"

/* The order is that of the agent's `Level`. */
enum level {
    LEVEL_FULL,
    LEVEL_NO_STACKS,
};

/* Classes of calls that may be watched in slices, from 1; 0 is always watched. The order is that of model's
 * `CallClass`. */
#define CALL_CLASSES 8

struct slice {
    u64 from_ns;   /* calls that begin from here on */
    u64 to_ns;     /* and before here are counted */
    u64 gone_ns;   /* calls that began before may have returned unseen: their probes were detached */
    u64 limit_ns;  /* what a thread may pay in it: beyond that it ends at once; 0 for no limit */
    u64 closed_ns; /* when that was; 0 where it ended, or is to end, as planned */
    u32 number;    /* tells its sums from those of other slices in the same window */
    u32 whole;     /* no slice, but all the time: what a thread owes is limited, which drains */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, CALL_CLASSES);
    __type(key, u32);
    __type(value, struct slice);
} slices SEC(".maps");

struct governor {
    u64 stacks_ns; /* debt beyond which no stacks are taken; 0: no budget */
    u64 entry_ns;  /* what an entry alone costs, and with its return */
    u64 pair_ns;
    u64 kept_ns; /* besides, for a call that is kept; and for its stack */
    u64 stack_ns;
    u32 drain; /* nanoseconds of debt that drain in 2^20 ns */
    u32 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct governor);
} governor SEC(".maps");

/* A thread's debt has grown too large: it ended a slice, or has no stacks taken any more. */
struct debt_record {
    struct record head;
    u64 debt_ns;
    u32 class; /* 0 for stacks */
    u32 reserved;
};

static __always_inline struct governor *governor_here(void) {
    u32 zero = 0;
    return bpf_map_lookup_elem(&governor, &zero);
}

static __always_inline struct slice *slice_of(u32 class) {
    return bpf_map_lookup_elem(&slices, &class);
}

static __always_inline bool is_open(const struct slice *slice, u64 now) {
    return now >= slice->from_ns && now < slice->to_ns;
}

static __noinline int tell_debt(u64 debt_ns, u32 class, u64 now) {
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct debt_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    /* User space looks at the slice itself, too, if a little later. */
    if (!out)
        return 0;
    fill_header(&out->head, RECORD_DEBT, now);
    out->debt_ns = debt_ns;
    out->class = class;
    out->reserved = 0;
    bpf_ringbuf_submit(out, class ? BPF_RB_FORCE_WAKEUP : submit_flags(ring));
    return 0;
}

/* Ends the slice for all threads, at a time that everybody can read from it. */
static __always_inline void close_slice(struct task *task, struct slice *slice, u32 class, u64 now) {
    u64 planned = slice->to_ns;
    if (now >= planned || __sync_val_compare_and_swap(&slice->to_ns, planned, now) != planned)
        return;
    slice->closed_ns = now;
    tell_debt(task->debt_ns, class, now);
    /* What is watched on has a debt of its own. */
    task->debt_ns = 0;
}

/* Drains the debt. Beyond a part of the budget no stacks are taken, until half of that has drained. */
static __always_inline void settle_debt(struct task *task, const struct governor *governor, u64 now) {
    u64 elapsed = now - task->debt_at_ns;
    /* A microsecond drains nothing that counts: the work would cost more. */
    if (elapsed < (1 << 20))
        return;
    u64 drained = (elapsed >> 20) * governor->drain;
    task->debt_at_ns = now;
    task->debt_ns = task->debt_ns > drained ? task->debt_ns - drained : 0;
    u64 most_ns = task->level == LEVEL_FULL ? governor->stacks_ns : governor->stacks_ns / 2;
    u32 level = governor->stacks_ns && task->debt_ns >= most_ns ? LEVEL_NO_STACKS : LEVEL_FULL;
    if (level == LEVEL_NO_STACKS && task->level == LEVEL_FULL)
        tell_debt(task->debt_ns, 0, now);
    task->level = level;
}

/* What was charged goes to the sums of the call that counts next. */
static __always_inline void charge(struct task *task, u64 ns) {
    task->debt_ns += ns;
    task->slice_ns += ns;
    task->unbilled_ns += ns;
}

/* A trap before or after a slice. */
static __always_inline void charge_beside(struct task *task, u64 ns) {
    task->debt_ns += ns;
    task->beside_ns += ns;
}

/* Whether a thread has paid more than it may. */
static __always_inline bool is_over_limit(struct task *task, const struct slice *slice) {
    if (task->slice != slice->number) {
        task->slice = slice->number;
        task->slice_ns = 0;
    }
    return slice->limit_ns && (slice->whole ? task->debt_ns : task->slice_ns) >= slice->limit_ns;
}

KEEP_TYPE(enum, level);
KEEP_TYPE(struct, slice);
KEEP_TYPE(struct, governor);
KEEP_TYPE(struct, debt_record);
