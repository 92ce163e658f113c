/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the probed functions are, how to read their arguments, and which of their calls to keep: a table that
 * user space fills, so that one pair of programs serves every function. */
#pragma once

#include "blame.h"

#define RULES 1024

enum rule_flags {
    RULE_STACK_ARGS = 1,        /* arguments beyond the registers are wanted */
    RULE_HANDLE_OUT = 2,        /* the handle is what the argument points to, on return */
    RULE_LAUNCH_ARGS = 4,       /* grid and block are arguments 2 to 7, shared memory the 8th */
    RULE_LAUNCH_CONFIG = 8,     /* the first argument points to grid, block, shared memory and stream */
    RULE_COPY_2D = 16,          /* the first argument points to a CUDA_MEMCPY2D */
    RULE_HOT = 32,              /* never kept for being rare */
    RULE_BYTES_PRODUCT = 64,    /* bytes are the product of `bytes_arg` and the argument after it */
    RULE_BYTES_WORDS = 128,     /* `bytes_arg` counts words of four bytes */
    RULE_AUX_OUT = 256,         /* as RULE_HANDLE_OUT, for `aux_arg` */
    RULE_BYTES_PITCH = 512,     /* bytes are what the 2nd argument points to, times the 4th */
    RULE_STATE = 1024,          /* sent even where it is not kept: the ledger needs it */
    RULE_THREAD_STREAM = 2048,  /* stream 0 is the thread's own */
    RULE_LAUNCH_DIM3 = 4096,    /* grid and block are structs by value in arguments 2 to 5 */
    RULE_GRID_THREADS = 8192,   /* the grid counts threads, not blocks */
    RULE_NO_RETURN = 16384,     /* entry is all there is to see */
    RULE_BYTES_POINTED = 32768, /* bytes are what the argument points to, on return */
    RULE_WAITS = 65536,         /* returns only after queued work has finished */
    RULE_ARRAY = 131072,        /* the 2nd argument points to a CUDA_ARRAY_DESCRIPTOR */
    RULE_ARRAY_3D = 262144,     /* or to its form with a depth */
};

/* What a call does to streams and captures. Model's `Role` says more; the kernel needs this. */
enum role {
    ROLE_NONE,
    ROLE_LAUNCH,
    ROLE_GRAPH_LAUNCH,
    ROLE_SUBMIT,
    ROLE_SYNC_STREAM,
    ROLE_SYNC_EVENT,
    ROLE_SYNC_DEVICE,
    ROLE_EVENT_RECORD,
    ROLE_EVENT_QUERY,
    ROLE_STREAM_QUERY,
    ROLE_STREAM_WAIT,
    ROLE_CAPTURE_BEGIN,
    ROLE_CAPTURE_END,
    ROLE_SET_DEVICE,
    ROLE_REGISTER,
};

/* Where the bytes of a copy go. The order is that of model's `Direction`, plus one. */
enum direction {
    DIRECTION_NONE,
    DIRECTION_HOST_TO_HOST,
    DIRECTION_HOST_TO_DEVICE,
    DIRECTION_DEVICE_TO_HOST,
    DIRECTION_DEVICE_TO_DEVICE,
    DIRECTION_PEER,
    DIRECTION_UNKNOWN,
};

/* What a function is, how to read its arguments, and which of its calls to keep. Its number is the lower part
 * of the attach cookie; spellings of one operation are rules of their own. Argument numbers count from 1. */
struct rule {
    u64 slow_ns;
    u32 sample_mask; /* 1 in (mask + 1) is drawn */
    s32 benign_ret;  /* a return value besides 0 that is no error */
    u32 flags;       /* enum rule_flags */
    u16 op;
    u8 layer;
    u8 role; /* enum role */
    u8 bytes_arg;
    u8 stream_arg;
    u8 handle_arg;
    u8 aux_arg;
    u8 name_arg;
    u8 direction;     /* enum direction, or by an argument: */
    u8 direction_arg; /* 0 to 3 are the first four directions */
    u8 keep_all;
    u8 class; /* of calls that may be watched in slices, see budget.h; 0 for always */
    u8 reserved[7];
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

static __always_inline u64 read_u64(u64 address) {
    u64 value = 0;
    bpf_probe_read_user(&value, sizeof(value), (void *)address);
    return value;
}

/* Offset of the stream in a CUlaunchConfig. */
#define CONFIG_STREAM 32

static __always_inline u64 stream_of(const struct rule *rule, const struct flight *flight) {
    if (rule->flags & RULE_LAUNCH_CONFIG)
        return read_u64(flight->args[0] + CONFIG_STREAM);
    return flight_arg(flight, rule->stream_arg);
}

static __always_inline u8 direction_of(const struct rule *rule, const struct flight *flight) {
    if (!rule->direction_arg)
        return rule->direction;
    u32 kind = flight_arg(flight, rule->direction_arg);
    return kind < 4 ? DIRECTION_HOST_TO_HOST + kind : DIRECTION_UNKNOWN;
}

/* Width, height, depth where there is one, format and channels; a height or depth of 0 is none. */
static __always_inline u64 array_bytes(u64 address, bool has_depth) {
    u64 width = read_u64(address), height = read_u64(address + 8);
    u64 depth = has_depth ? read_u64(address + 16) : 0;
    u64 element = read_u64(address + (has_depth ? 24 : 16));
    u32 format = (u32)element, channels = element >> 32, size;
    switch (format) {
    case 0x01: /* 8 bits, with and without sign */
    case 0x08:
        size = 1;
        break;
    case 0x03: /* 32 bits, and floating point */
    case 0x0a:
    case 0x20:
        size = 4;
        break;
    default: /* 16 bits, and half precision */
        size = 2;
    }
    return width * (height ? height : 1) * (depth ? depth : 1) * channels * size;
}

static __always_inline u64 bytes_of(const struct rule *rule, const struct flight *flight, s32 ret) {
    if (rule->flags & RULE_COPY_2D) {
        u64 extent[2] = {0, 0}; /* WidthInBytes and Height end the struct */
        bpf_probe_read_user(extent, sizeof(extent), (void *)(flight->args[0] + 112));
        return extent[0] * extent[1];
    }
    if (rule->flags & (RULE_ARRAY | RULE_ARRAY_3D))
        return array_bytes(flight->args[1], rule->flags & RULE_ARRAY_3D);
    if ((rule->flags & RULE_BYTES_PITCH) && ret == 0)
        return read_u64(flight->args[1]) * flight->args[3];
    u64 bytes = flight_arg(flight, rule->bytes_arg);
    if (rule->flags & RULE_BYTES_POINTED)
        return ret == 0 && bytes ? read_u64(bytes) : 0;
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
    return read_u64(handle);
}

/* A second one. */
static __always_inline u64 aux_of(const struct rule *rule, const struct flight *flight, s32 ret) {
    u64 aux = flight_arg(flight, rule->aux_arg);
    if (!(rule->flags & RULE_AUX_OUT))
        return aux;
    return aux ? read_u64(aux) : 0;
}

KEEP_TYPE(enum, rule_flags);
KEEP_TYPE(enum, role);
KEEP_TYPE(enum, direction);
