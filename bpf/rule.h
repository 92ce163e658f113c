/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the probed functions are, how to read their arguments, and which of their calls to keep: a table that
 * user space fills, so that one pair of programs serves every function. */
#pragma once

#include "blame.h"

#define RULES 512

enum rule_flags {
    RULE_STACK_ARGS = 1,     /* arguments beyond the registers are wanted */
    RULE_HANDLE_OUT = 2,     /* the handle is what the argument points to, on return */
    RULE_LAUNCH_ARGS = 4,    /* grid and block are arguments 2 to 7, shared memory the 8th */
    RULE_LAUNCH_CONFIG = 8,  /* the first argument points to grid, block, shared memory and stream */
    RULE_COPY_2D = 16,       /* the first argument points to a CUDA_MEMCPY2D */
    RULE_HOT = 32,           /* never kept for being rare */
    RULE_BYTES_PRODUCT = 64, /* bytes are the product of `bytes_arg` and the argument after it */
    RULE_BYTES_WORDS = 128,  /* `bytes_arg` counts words of four bytes */
};

/* What a function is, how to read its arguments, and which of its calls to keep. Its number is the attach
 * cookie; spellings of one operation are rules of their own. Argument numbers count from 1. */
struct rule {
    u64 slow_ns;
    u32 sample_mask; /* 1 in (mask + 1) is drawn */
    s32 benign_ret;  /* a return value besides 0 that is no error */
    u16 op;
    u8 layer;
    u8 flags; /* enum rule_flags */
    u8 bytes_arg;
    u8 stream_arg;
    u8 handle_arg;
    u8 keep_all;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, RULES);
    __type(key, u32);
    __type(value, struct rule);
} rules SEC(".maps");

static __always_inline u64 flight_arg(const struct flight *flight, u32 number) {
    return number >= 1 && number <= CALL_ARGS ? flight->args[number - 1] : 0;
}

static __always_inline u64 bytes_of(const struct rule *rule, const struct flight *flight) {
    if (rule->flags & RULE_COPY_2D) {
        u64 extent[2] = {0, 0}; /* WidthInBytes and Height end the struct */
        bpf_probe_read_user(extent, sizeof(extent), (void *)(flight->args[0] + 112));
        return extent[0] * extent[1];
    }
    u64 bytes = flight_arg(flight, rule->bytes_arg);
    if (rule->flags & RULE_BYTES_PRODUCT)
        bytes *= flight_arg(flight, rule->bytes_arg + 1);
    if (rule->flags & RULE_BYTES_WORDS)
        bytes *= 4;
    return bytes;
}

/* The pointer or handle a call was about. */
static __always_inline u64 handle_of(const struct rule *rule, const struct flight *flight, s32 ret) {
    u64 handle = flight_arg(flight, rule->handle_arg);
    if (rule->flags & RULE_COPY_2D) {
        u64 target[2] = {0, 0}; /* dstHost and dstDevice; the one that is not the target is 0 */
        bpf_probe_read_user(target, sizeof(target), (void *)(flight->args[0] + 80));
        return target[1] ? target[1] : target[0];
    }
    if (!(rule->flags & RULE_HANDLE_OUT))
        return handle;
    if (ret != 0)
        return 0; /* a call that failed has put nothing there */
    u64 out = 0;
    bpf_probe_read_user(&out, sizeof(out), (void *)handle);
    return out;
}

KEEP_TYPE(enum, rule_flags);
