/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A stack as it goes to user space, whoever takes it: the record, the Python frames in it, and which stacks
 * user space has already. */
#pragma once

#include "python.h"

#define NATIVE_FRAMES 64

enum stack_mode { STACKS_OFF, STACKS_AUTO, STACKS_ON };
/* In .data: user space turns stacks off and on while the probes run. */
volatile u32 stack_mode = STACKS_AUTO;

/* An outer probed call: its return address is the probe's trampoline for the time being. */
struct swapped {
    u64 at;
    u64 original;
};

struct stack_record {
    struct record head;
    u64 key; /* calls refer to it by this */
    u64 ip;
    u64 sp;
    u64 bp;
    u32 copied;        /* bytes of the stack that follow in parts */
    u32 native_bytes;  /* of `native` */
    u32 python_frames; /* of `python` */
    u32 swapped_count;
    u32 python_cut; /* the thread's Python frames, if it has any, could not be looked for */
    u32 sampled;    /* of running code: nothing is copied, and `ip` is where the thread is; 0: it has none */
    struct swapped swapped[CALL_DEPTH];
    u64 native[NATIVE_FRAMES]; /* by frame pointers, as far as there are any */
    struct python_stack python;
};

/* Stacks user space has, by key. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, u64);
    __type(value, u8);
} stacks_seen SEC(".maps");

static __always_inline u64 mix_stack(u64 hash, u64 word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    return hash ^ hash >> 32;
}

/* A number for what a Python stack shows. */
__noinline u64 hash_frames(struct python_stack *stack, u32 count, u64 hash) {
    if (!stack)
        return hash;
    for (u32 i = 0; i < PYTHON_FRAMES; i++) {
        if (i >= count)
            break;
        hash = mix_stack(hash, stack->frames[i].code ^ (u64)stack->frames[i].instr << 40);
    }
    return hash;
}

__noinline int send_codes(struct python *python, struct python_stack *stack, u32 count, u32 cpu) {
    if (!python || !stack)
        return 0;
    for (u32 i = 0; i < PYTHON_FRAMES; i++) {
        if (i >= count)
            break;
        send_code(python, &stack->frames[i], cpu);
    }
    return 0;
}

/* A stack is large, and calls and processes go first: a quarter of a ring is theirs alone. */
static __always_inline bool has_room_for_stack(void *ring) {
    if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) <= RING_WAKES * 3 / 4 * ring_wake_bytes)
        return true;
    count_loss(LOSS_STACK_RING);
    return false;
}

/* A record with the Python frames in place; the rest is for whoever takes the stack. */
static __always_inline struct stack_record *reserve_stack(void *ring, u64 key, u64 now,
                                                          const struct python_stack *stack, u32 frames) {
    struct stack_record *out = bpf_ringbuf_reserve(ring, sizeof(*out), 0);
    if (!out) {
        count_loss(LOSS_STACK_RING);
        return 0;
    }
    fill_header(&out->head, RECORD_STACK, now);
    out->key = key;
    out->copied = out->native_bytes = out->swapped_count = out->python_cut = out->sampled = 0;
    out->python_frames = frames;
    if (frames && stack)
        bpf_probe_read_kernel(&out->python, sizeof(out->python), stack);
    return out;
}

static __always_inline void mark_seen(u64 key) {
    u8 sent = 1;
    bpf_map_update_elem(&stacks_seen, &key, &sent, BPF_ANY);
}

KEEP_TYPE(enum, stack_mode);
KEEP_TYPE(struct, stack_record);
