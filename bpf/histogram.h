/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Log-linear duration buckets, eight to an octave; the same as model's `bucket_of`. */
#pragma once

#include "kernel.h"

#define HIST_SHIFT 6    /* durations below 64 ns share a bucket */
#define HIST_SUB_BITS 3 /* eight buckets an octave */
#define HIST_BUCKETS 264

static __always_inline u32 floor_log2(u64 value) {
    u32 log = 0;
    if (value >> 32) {
        value >>= 32;
        log += 32;
    }
    if (value >> 16) {
        value >>= 16;
        log += 16;
    }
    if (value >> 8) {
        value >>= 8;
        log += 8;
    }
    if (value >> 4) {
        value >>= 4;
        log += 4;
    }
    if (value >> 2) {
        value >>= 2;
        log += 2;
    }
    return log + (value >> 1);
}

static __always_inline u32 bucket_of(u64 ns) {
    u64 units = ns >> HIST_SHIFT;
    if (units < (1 << HIST_SUB_BITS))
        return units;
    u32 exponent = floor_log2(units);
    u32 sub = (units >> (exponent - HIST_SUB_BITS)) & ((1 << HIST_SUB_BITS) - 1);
    u32 bucket = ((exponent - HIST_SUB_BITS + 1) << HIST_SUB_BITS) + sub;
    return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}
