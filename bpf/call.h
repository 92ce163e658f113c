/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A timed library call: one body for entry and one for return, in session, multi and single flavours. Every
 * call is counted exactly, by thread, operation and window; slow, failed, rare and sampled ones are sent
 * whole. */
#pragma once

#include "blame.h"
#include "histogram.h"
#include "process.h"
#include "target.h"

#define RULES 512
#define STACK_FRAMES 64
/* An operation called at most so often by a thread in a window is kept in full. */
#define RARE_PER_WINDOW 16

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

struct window_key {
    u32 tgid;
    u32 tid;
    u32 window; /* CLOCK_MONOTONIC at the return, in windows since boot */
    u16 op;
    u16 reserved;
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

static const struct window_sum empty_window;

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

static __always_inline u64 flight_arg(const struct flight *flight, u32 number) {
    return number >= 1 && number <= CALL_ARGS ? flight->args[number - 1] : 0;
}

static __always_inline struct task *task_of_caller(u32 tgid) {
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = bpf_task_storage_get(&tasks, current, 0, 0);
    if (task)
        return task;
    u32 *flags = target_current(tgid);
    if (!flags)
        return 0;
    if (!(__sync_fetch_and_or(flags, TARGET_SEEN) & TARGET_SEEN))
        emit_process(PROCESS_SEEN, 0, 0);
    task = bpf_task_storage_get(&tasks, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!task)
        count_loss(LOSS_TASKS_FULL);
    return task;
}

/* Calls left without a return (longjmp, an exception, a switched stack): the stack has grown back past them.
 */
static __always_inline void drop_dead_flights(struct task *task, u64 sp, u16 rule) {
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        struct flight *flight = flight_at(task, task->depth - 1);
        if (!flight)
            return;
        /* An equal stack pointer is a tail call into another function, or the same call anew. */
        if (flight->sp > sp || (flight->sp == sp && flight->rule != rule))
            return;
        task->depth--;
    }
}

/* Returns whether the call is followed, and so its return wanted. */
static __always_inline bool call_enter(struct pt_regs *regs, u16 number) {
    u64 id = bpf_get_current_pid_tgid();
    struct task *task = task_of_caller(id >> 32);
    if (!task)
        return false;
    u32 key = number;
    struct rule *rule = bpf_map_lookup_elem(&rules, &key);
    if (!rule)
        return false;

    u64 sp = ENTRY_SP(regs, false);
    drop_dead_flights(task, sp, number);
    struct flight *outer = flight_at(task, task->depth - 1);
    if (outer && outer->layer == rule->layer)
        return false; /* the runtime calling its driver: counted once, at the outermost call */
    struct flight *flight = flight_at(task, task->depth);
    if (!flight) {
        count_loss(LOSS_DEPTH);
        return false;
    }
    flight->sp = sp;
    flight->args[0] = PT_REGS_PARM1(regs);
    flight->args[1] = PT_REGS_PARM2(regs);
    flight->args[2] = PT_REGS_PARM3(regs);
    flight->args[3] = PT_REGS_PARM4(regs);
    flight->args[4] = PT_REGS_PARM5(regs);
    flight->args[5] = PT_REGS_PARM6(regs);
    if (rule->flags & RULE_STACK_ARGS)
        bpf_probe_read_user(&flight->args[6], sizeof(u64) * 3, (void *)(sp + FIRST_STACK_ARG_OFFSET));
    flight->rule = number;
    flight->op = rule->op;
    flight->layer = rule->layer;
    flight->waited = 0;
    task->depth++;
    flight->start_ns = bpf_ktime_get_ns();
    return true;
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

static __always_inline struct window_sum *window_of(u64 id, u16 op, u64 now) {
    struct window_key key = {.tgid = id >> 32, .tid = (u32)id, .window = now / WINDOW_NS, .op = op};
    struct window_sum *sum = bpf_map_lookup_elem(&windows, &key);
    if (sum)
        return sum;
    bpf_map_update_elem(&windows, &key, &empty_window, BPF_NOEXIST);
    return bpf_map_lookup_elem(&windows, &key);
}

static __always_inline void count_call(struct window_sum *sum, const struct flight *flight, u64 duration_ns,
                                       u64 bytes, bool failed) {
    if (!sum->count || duration_ns < sum->min_ns)
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

static __always_inline void call_return(struct pt_regs *regs) {
    u64 now = bpf_ktime_get_ns();
    struct task *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
    if (!task)
        return;
    /* Frames above the one that returns were left without a return. No match: a nested call, not followed. */
    u64 sp = ENTRY_SP(regs, true);
    struct flight *flight = 0;
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        flight = flight_at(task, task->depth - 1 - i);
        if (!flight)
            return;
        if (flight->sp == sp) {
            task->depth -= i + 1;
            break;
        }
        flight = 0;
    }
    if (!flight)
        return;
    u32 key = flight->rule;
    struct rule *rule = bpf_map_lookup_elem(&rules, &key);
    if (!rule)
        return;

    u64 duration_ns = now - flight->start_ns;
    s32 ret = (s32)PT_REGS_RC(regs);
    bool failed = ret != 0 && ret != rule->benign_ret;
    u64 bytes = bytes_of(rule, flight);
    struct window_sum *sum = window_of(bpf_get_current_pid_tgid(), flight->op, now);
    if (!sum) {
        count_loss(LOSS_WINDOWS_FULL);
        return;
    }
    count_call(sum, flight, duration_ns, bytes, failed);

    bool sampled = rule->sample_mask == 0 || (bpf_get_prandom_u32() & rule->sample_mask) == 0;
    u32 kept = why_keep(rule, sum, duration_ns, failed, sampled);
    if (kept != KEPT_NOT && keep_call(regs, rule, flight, duration_ns, bytes, kept, sampled))
        sum->kept++;
}

KEEP_TYPE(enum, rule_flags);
KEEP_TYPE(enum, kept);
KEEP_TYPE(enum, stack_mode);
KEEP_TYPE(struct, call_stack_record);
