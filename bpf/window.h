/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Exact sums and histograms over all calls, by thread, operation and window. */
#pragma once

#include "blame.h"
#include "histogram.h"

struct window_key {
    u32 tgid;
    u32 tid;
    u32 window; /* CLOCK_MONOTONIC at the return, in windows since boot */
    u16 op;
    u8 direction; /* enum direction: copies are summed by where they go */
    u8 slice;     /* the number of the slice it was counted in, see budget.h */
};

/* A thread is the only writer of its windows, so plain additions are exact. User space reads a window when no
 * call can still fall into it. */
struct window_sum {
    u64 count;
    u64 errors;
    u64 kept;
    u64 bytes;
    u64 sum_ns;
    u64 min_ns;
    u64 max_ns;
    u64 runq_ns;
    u64 cost_ns;   /* of being watched */
    u64 beside_ns; /* of traps that counted nothing, before and after slices */
    u64 blocked_ns[REASONS];
    u32 hist[HIST_BUCKETS];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct window_key);
    __type(value, struct window_sum);
} windows SEC(".maps");

/* What was charged since the last call that counted. */
static __always_inline void bill_cost(struct window_sum *sum, struct task *task) {
    sum->cost_ns += task->unbilled_ns;
    sum->beside_ns += task->beside_ns;
    task->unbilled_ns = task->beside_ns = 0;
}

static const struct window_sum empty_window;

static __always_inline struct window_sum *window_of(u64 id, const struct flight *flight, u64 now) {
    struct window_key key = {.tgid = id >> 32,
                             .tid = (u32)id,
                             .window = now / WINDOW_NS,
                             .op = flight->op,
                             .direction = flight->direction,
                             .slice = flight->slice};
    struct window_sum *sum = bpf_map_lookup_elem(&windows, &key);
    if (sum)
        return sum;
    bpf_map_update_elem(&windows, &key, &empty_window, BPF_NOEXIST);
    return bpf_map_lookup_elem(&windows, &key);
}

static __always_inline void count_call(struct window_sum *sum, const struct flight *flight, u64 duration_ns,
                                       u64 bytes, bool failed) {
    if (!sum->min_ns || duration_ns < sum->min_ns)
        sum->min_ns = duration_ns;
    if (duration_ns > sum->max_ns)
        sum->max_ns = duration_ns;
    sum->count++;
    sum->sum_ns += duration_ns;
    sum->bytes += bytes;
    sum->errors += failed;
    u32 bucket = bucket_of(duration_ns);
    if (bucket < HIST_BUCKETS)
        sum->hist[bucket]++;
    if (flight->waited) {
        sum->runq_ns += flight->runq_ns;
        for (u32 i = 0; i < REASONS; i++)
            sum->blocked_ns[i] += flight->blocked_ns[i];
    }
}
