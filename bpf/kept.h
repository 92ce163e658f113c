/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls kept in full: why, and the record that goes to the ring, with the user's stack taken on return. */
#pragma once

#include "budget.h"
#include "event.h"
#include "function.h"
#include "rule.h"
#include "stack.h"
#include "window.h"

/* An operation called at most so often by a thread in a window is kept in full. */
#define RARE_PER_WINDOW 16

/* Longer names are read from the process by user space. */
#define NAME_LEN 512

enum kept { KEPT_ERROR, KEPT_SLOW, KEPT_SAMPLE, KEPT_RARE, KEPT_ALL, KEPT_STATE, KEPT_NOT };

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
    u64 aux;
    u64 caller;
    u64 capture;
    struct launch launch;
    s32 ret;
    u32 sample_weight;
    u16 op;
    u8 kept; /* enum kept */
    u8 layer;
    u16 library;
    u8 direction; /* enum direction */
    u8 first;
    s32 device_next; /* the thread's device plus one, or 0 */
    u32 reserved;
    u64 stack_key; /* see stack.h; 0 for none */
};

struct call_named_record {
    struct call_record call;
    u64 name_at;
    s64 name_bytes;
    char name[NAME_LEN];
};

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
        if (rule->flags & RULE_GRID_THREADS)
            for (u32 i = 0; i < 3; i++)
                launch->grid[i] = launch->block[i] ? launch->grid[i] / launch->block[i] : 0;
        launch->shared_bytes = flight->args[7];
        launch->known = 1;
    } else if (rule->flags & RULE_LAUNCH_DIM3) {
        launch->grid[0] = flight->args[1];
        launch->grid[1] = flight->args[1] >> 32;
        launch->grid[2] = flight->args[2];
        launch->block[0] = flight->args[3];
        launch->block[1] = flight->args[3] >> 32;
        launch->block[2] = flight->args[4];
        launch->shared_bytes = flight->args[6];
        launch->known = 1;
    } else if (rule->flags & RULE_LAUNCH_CONFIG) {
        /* 28 bytes of sizes, then padding where `known` is */
        if (!bpf_probe_read_user(launch, sizeof(*launch), (void *)flight->args[0]))
            launch->known = 1;
    }
}

static __always_inline void fill_call(struct call_record *out, struct pt_regs *regs, const struct task *task,
                                      const struct rule *rule, const struct flight *flight, s32 ret,
                                      u64 duration_ns, u64 bytes, u32 kept, bool sampled, u64 stack_key) {
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
    out->stream = flight->stream;
    out->handle = handle_of(rule, flight, ret);
    out->aux = aux_of(rule, flight, ret);
    /* A return probe runs with the caller's address restored; a system call has no caller to tell. */
    out->caller = regs ? PT_REGS_IP(regs) : 0;
    out->capture = flight->capture;
    fill_launch(out, rule, flight);
    out->ret = ret;
    out->sample_weight = sampled ? rule->sample_mask + 1 : 0;
    out->op = flight->op;
    out->kept = kept;
    out->layer = flight->layer;
    out->library = flight->library;
    out->direction = flight->direction;
    out->first = flight->first;
    out->device_next = task->device_next;
    out->reserved = 0;
    out->stack_key = stack_key;
}

/* What the ledger needs is told by where it came from, so that one has its stack even when drawn. */
static __always_inline bool wants_stack(const struct task *task, const struct rule *rule, u32 kept) {
    u32 mode = stack_mode;
    /* Memory that grows is explained by where it was allocated: some of those calls keep their stack. */
    if (task->level >= LEVEL_NO_STACKS &&
        (!(rule->flags & RULE_STATE) || mode == STACKS_OFF || (bpf_get_prandom_u32() & 3)))
        return false;
    return mode == STACKS_ON || (mode == STACKS_AUTO && (kept != KEPT_SAMPLE || (rule->flags & RULE_STATE)));
}

static __always_inline void count_lost_call(u32 kept) {
    count_loss(kept == KEPT_STATE ? LOSS_STATE_RING : LOSS_RING_FULL);
}

/* A call that gave a name. */
static __always_inline bool keep_named(void *ring, struct pt_regs *regs, const struct task *task,
                                       const struct rule *rule, const struct flight *flight, u64 name_at,
                                       s32 ret, u64 duration_ns, u64 bytes, u32 kept, bool sampled,
                                       u64 stack_key) {
    struct call_named_record *out = bpf_ringbuf_reserve(ring, sizeof(*out), 0);
    if (!out)
        return false;
    fill_call(&out->call, regs, task, rule, flight, ret, duration_ns, bytes, kept, sampled, stack_key);
    out->call.head.kind = RECORD_CALL_NAMED;
    out->name_at = name_at;
    out->name_bytes = bpf_probe_read_user_str(out->name, sizeof(out->name), (void *)out->name_at);
    bpf_ringbuf_submit(out, submit_flags(ring));
    return true;
}

static __always_inline bool keep_plain(void *ring, struct pt_regs *regs, const struct task *task,
                                       const struct rule *rule, const struct flight *flight, s32 ret,
                                       u64 duration_ns, u64 bytes, u32 kept, bool sampled, u64 stack_key) {
    struct call_record *out = bpf_ringbuf_reserve(ring, sizeof(*out), 0);
    if (!out)
        return false;
    fill_call(out, regs, task, rule, flight, ret, duration_ns, bytes, kept, sampled, stack_key);
    bpf_ringbuf_submit(out, submit_flags(ring));
    return true;
}

static __always_inline bool keep_call(struct pt_regs *regs, struct task *task, const struct rule *rule,
                                      const struct flight *flight, s32 ret, u64 duration_ns, u64 bytes,
                                      u32 kept, bool sampled) {
    u32 cpu = bpf_get_smp_processor_id();
    void *ring = ring_of_cpu(cpu);
    bool sent = false;
    u64 name_at = flight_arg(flight, rule->name_arg), stack_key = 0;
    /* The first launch of a kernel brings its name: it may have been made ready before the trace began. */
    if (flight->first && rule->role == ROLE_LAUNCH)
        name_at = name_of_function(bpf_get_current_pid_tgid() >> 32, flight_arg(flight, rule->handle_arg));
    struct governor *governor = governor_here();
    if (ring && regs && wants_stack(task, rule, kept)) {
        stack_key = take_stack(regs, task, cpu);
        charge(task, governor ? governor->stack_ns : 0);
    }
    charge(task, governor ? governor->kept_ns : 0);
    if (ring && name_at)
        sent = keep_named(ring, regs, task, rule, flight, name_at, ret, duration_ns, bytes, kept, sampled,
                          stack_key);
    else if (ring)
        sent = keep_plain(ring, regs, task, rule, flight, ret, duration_ns, bytes, kept, sampled, stack_key);
    if (!sent)
        count_lost_call(kept);
    return sent;
}

KEEP_TYPE(enum, kept);
KEEP_TYPE(struct, call_record);
KEEP_TYPE(struct, call_named_record);
