/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls kept in full: why, and the record that goes to the ring, with the user's stack taken on return. */
#pragma once

#include "event.h"
#include "rule.h"
#include "window.h"

#define STACK_FRAMES 64
/* An operation called at most so often by a thread in a window is kept in full. */
#define RARE_PER_WINDOW 16

enum kept { KEPT_ERROR, KEPT_SLOW, KEPT_SAMPLE, KEPT_RARE, KEPT_ALL, KEPT_NOT };

struct launch {
    u32 grid[3];
    u32 block[3];
    u32 shared_bytes;
    u32 known;
};

/* A call kept in full; head.time_ns is its start. */
struct call_record {
    struct record head;
    u64 duration_ns;
    u64 oncpu_ns;
    u64 runq_ns;
    u64 blocked_ns[REASONS];
    u64 bytes;
    u64 stream;
    u64 handle;
    u64 caller;
    struct launch launch;
    s32 ret;
    u32 sample_weight;
    u16 op;
    u8 kept; /* enum kept */
    u8 layer;
    u32 stack_bytes;
};

struct call_stack_record {
    struct call_record call;
    u64 stack[STACK_FRAMES];
};

enum stack_mode { STACKS_OFF, STACKS_AUTO, STACKS_ON };
/* In .data: user space turns stacks off and on while the probes run. */
volatile u32 stack_mode = STACKS_AUTO;

static __always_inline u32 why_keep(const struct rule *rule, const struct window_sum *sum, u64 duration_ns,
                                    bool failed, bool sampled) {
    if (failed)
        return KEPT_ERROR;
    if (duration_ns >= rule->slow_ns)
        return KEPT_SLOW;
    if (rule->keep_all)
        return KEPT_ALL;
    if (sampled)
        return KEPT_SAMPLE;
    if (!(rule->flags & RULE_HOT) && sum->count <= RARE_PER_WINDOW)
        return KEPT_RARE;
    return KEPT_NOT;
}

static __always_inline void fill_launch(struct call_record *out, const struct rule *rule,
                                        const struct flight *flight) {
    struct launch *launch = &out->launch;
    launch->known = 0;
    if (rule->flags & RULE_LAUNCH_ARGS) {
        for (u32 i = 0; i < 3; i++) {
            launch->grid[i] = flight->args[1 + i];
            launch->block[i] = flight->args[4 + i];
        }
        launch->shared_bytes = flight->args[7];
        launch->known = 1;
    } else if (rule->flags & RULE_LAUNCH_CONFIG) {
        struct {
            struct launch dims; /* 28 bytes of sizes, then padding where `known` is */
            u64 stream;
        } config = {};
        if (!bpf_probe_read_user(&config, sizeof(config), (void *)flight->args[0])) {
            *launch = config.dims;
            launch->known = 1;
            out->stream = config.stream;
        }
    }
}

static __always_inline void fill_call(struct call_record *out, struct pt_regs *regs, const struct rule *rule,
                                      const struct flight *flight, u64 duration_ns, u64 bytes, u32 kept,
                                      bool sampled) {
    fill_header(&out->head, RECORD_CALL, flight->start_ns);
    out->duration_ns = duration_ns;
    u64 waited_ns = 0;
    if (flight->waited) {
        out->runq_ns = waited_ns = flight->runq_ns;
        for (u32 i = 0; i < REASONS; i++) {
            out->blocked_ns[i] = flight->blocked_ns[i];
            waited_ns += flight->blocked_ns[i];
        }
    } else {
        out->runq_ns = 0;
        __builtin_memset(out->blocked_ns, 0, sizeof(out->blocked_ns));
    }
    out->oncpu_ns = duration_ns > waited_ns ? duration_ns - waited_ns : 0;
    out->bytes = bytes;
    out->stream = flight_arg(flight, rule->stream_arg);
    out->handle = handle_of(rule, flight, (s32)PT_REGS_RC(regs));
    out->caller = PT_REGS_IP(regs); /* a return probe runs with the caller's address restored */
    fill_launch(out, rule, flight);
    out->ret = (s32)PT_REGS_RC(regs);
    out->sample_weight = sampled ? rule->sample_mask + 1 : 0;
    out->op = flight->op;
    out->kept = kept;
    out->layer = flight->layer;
    out->stack_bytes = 0;
}

static __always_inline bool keep_call(struct pt_regs *regs, const struct rule *rule,
                                      const struct flight *flight, u64 duration_ns, u64 bytes, u32 kept,
                                      bool sampled) {
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    if (!ring) {
        count_loss(LOSS_RING_FULL);
        return false;
    }
    u32 mode = stack_mode;
    if (mode == STACKS_ON || (mode == STACKS_AUTO && kept != KEPT_SAMPLE)) {
        struct call_stack_record *out = bpf_ringbuf_reserve(ring, sizeof(*out), 0);
        if (!out) {
            count_loss(LOSS_RING_FULL);
            return false;
        }
        fill_call(&out->call, regs, rule, flight, duration_ns, bytes, kept, sampled);
        long got = bpf_get_stack(regs, out->stack, sizeof(out->stack), BPF_F_USER_STACK);
        out->call.stack_bytes = got > 0 ? got : 0;
        out->call.head.kind = RECORD_CALL_STACK;
        bpf_ringbuf_submit(out, submit_flags(ring));
    } else {
        struct call_record *out = bpf_ringbuf_reserve(ring, sizeof(*out), 0);
        if (!out) {
            count_loss(LOSS_RING_FULL);
            return false;
        }
        fill_call(out, regs, rule, flight, duration_ns, bytes, kept, sampled);
        bpf_ringbuf_submit(out, submit_flags(ring));
    }
    return true;
}

KEEP_TYPE(enum, kept);
KEEP_TYPE(enum, stack_mode);
KEEP_TYPE(struct, call_stack_record);
