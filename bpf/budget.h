/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What being watched costs a thread, and what is done about it at once. Every trap is charged to a debt that
 * drains at the rate of the budget; the deeper the debt, the less is done. User space is told: it detaches
 * what is called too often, and attaches it again when the debt has drained. */
#pragma once

#include "blame.h"
#include "event.h"

/* Deeper levels do what those before them do, too. The order is that of the agent's `Level`. */
enum level {
    LEVEL_FULL,
    LEVEL_NO_STACKS,
    LEVEL_SAMPLE, /* one in so many calls is measured; the others are counted on entry */
    LEVEL_COUNT,  /* counted on entry alone */
    LEVEL_DETACH, /* over budget: user space has to detach */
};

#define SAMPLED_CALLS 16 /* a power of two */
#define EIGHTHS 8

struct governor {
    u64 capacity_ns; /* debt beyond which a thread is over budget; 0: no budget */
    u64 entry_ns;    /* what an entry alone costs, and with its return */
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

/* A thread got to another level. */
struct level_record {
    struct record head;
    u64 debt_ns;
    u32 level; /* enum level */
    u16 rule;  /* of the call that did it */
    u16 library;
};

/* Changes are told at most so often; that of going over budget at once. */
#define LEVEL_TOLD_NS 100000000ULL
#define OVER_TOLD_NS 5000000ULL

static __always_inline struct governor *governor_here(void) {
    u32 zero = 0;
    return bpf_map_lookup_elem(&governor, &zero);
}

static __noinline int tell_level(struct task *task, u16 rule, u16 library, u64 now) {
    u32 level = task->level;
    u64 pause = level == LEVEL_DETACH ? OVER_TOLD_NS : LEVEL_TOLD_NS;
    if (now - task->level_told_ns < pause && task->level_told_ns)
        return 0;
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct level_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out)
        return 0;
    fill_header(&out->head, RECORD_LEVEL, now);
    out->debt_ns = task->debt_ns;
    out->level = level;
    out->rule = rule;
    out->library = library;
    task->level_told_ns = now;
    task->told_level = level;
    bpf_ringbuf_submit(out, level == LEVEL_DETACH ? BPF_RB_FORCE_WAKEUP : submit_flags(ring));
    return 0;
}

/* In eighths of the capacity, from which debt on a level is reached. */
static __always_inline u32 level_of_debt(u64 debt, u64 eighth) {
    if (debt < 4 * eighth)
        return LEVEL_FULL;
    if (debt < 6 * eighth)
        return LEVEL_NO_STACKS;
    if (debt < EIGHTHS * eighth - eighth / 4)
        return LEVEL_SAMPLE;
    return debt < EIGHTHS * eighth ? LEVEL_COUNT : LEVEL_DETACH;
}

/* Drains the debt and gives the level a thread is at. Over budget, a function that can be let go alone is
 * named; others only when that has not helped. */
static __always_inline u32 current_level(struct task *task, const struct governor *governor, u16 rule,
                                         u16 library, bool alone, u64 now) {
    u64 eighth = governor->capacity_ns / EIGHTHS;
    if (!eighth)
        return LEVEL_FULL;
    u64 elapsed = now - task->debt_at_ns;
    /* A microsecond drains nothing that counts: the division above would be most of the work. */
    if (elapsed < (1 << 20) && task->debt_ns < governor->capacity_ns)
        return task->level;
    u64 drained = (elapsed >> 20) * governor->drain;
    task->debt_at_ns = now;
    task->debt_ns = task->debt_ns > drained ? task->debt_ns - drained : 0;
    task->level = level_of_debt(task->debt_ns, eighth);
    if (task->level == LEVEL_DETACH && !alone && task->debt_ns < 2 * governor->capacity_ns)
        task->level = LEVEL_COUNT;
    if (task->level != task->told_level || task->level == LEVEL_DETACH)
        tell_level(task, rule, library, now);
    return task->level;
}

static __always_inline void charge(struct task *task, u64 ns) {
    task->debt_ns += ns;
}

KEEP_TYPE(enum, level);
KEEP_TYPE(struct, governor);
KEEP_TYPE(struct, level_record);
