/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A timed library call: one body for entry and one for return, in session, multi and single flavours. Every
 * call is counted exactly; slow, failed, rare and sampled ones are sent whole. */
#pragma once

#include "bill.h"
#include "budget.h"
#include "kept.h"
#include "process.h"
#include "target.h"
#include "work.h"

/* The record of the current thread, made if its process is traced, or if `anyone` is followed here. */
static __always_inline struct task *task_of_caller(u32 tgid, bool anyone) {
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = bpf_task_storage_get(&tasks, current, 0, 0);
    if (task && (task->calls || (anyone && !task->target)))
        return task;
    u32 *flags = target_current(tgid);
    if (!flags && !anyone)
        return 0;
    if (flags && !(__sync_fetch_and_or(flags, TARGET_SEEN) & TARGET_SEEN))
        emit_process(PROCESS_SEEN, 0, 0, false);
    task = bpf_task_storage_get(&tasks, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!task)
        count_loss(LOSS_TASKS_FULL);
    else if (flags)
        task->target = task->calls = 1;
    return task;
}

/* Its probe was detached meanwhile: nobody knows whether it has returned, so nothing nests in it. */
static __always_inline bool returned_unseen(const struct flight *flight) {
    struct slice *slice = flight->class ? slice_of(flight->class) : 0;
    return slice && flight->start_ns < slice->gone_ns;
}

/* Calls left without a return (longjmp, an exception, a switched stack): the stack has grown back past them.
 */
static __always_inline void drop_dead_flights(struct task *task, u64 sp, u16 rule) {
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        struct flight *flight = flight_at(task, task->depth - 1);
        if (!flight)
            return;
        /* An equal stack pointer is a tail call into another function, or the same call anew. */
        bool nests = flight->sp > sp || (flight->sp == sp && flight->rule != rule);
        if (nests && !returned_unseen(flight))
            return;
        task->depth--;
    }
}

/* A flight for a call that begins, on top of those in flight; none where it is not to be followed. */
static __always_inline struct flight *new_flight(struct task *task, const struct rule *rule, u16 number,
                                                 u64 sp) {
    drop_dead_flights(task, sp, number);
    struct flight *outer = flight_at(task, task->depth - 1);
    if (outer && outer->layer == rule->layer) {
        /* The runtime calling its driver: counted once, at the outermost call. What it was told to find out,
         * the driver is told. */
        if (outer->direction == DIRECTION_UNKNOWN && rule->direction)
            outer->direction = rule->direction;
        return 0;
    }
    struct flight *flight = flight_at(task, task->depth);
    if (!flight) {
        count_loss(LOSS_DEPTH);
        return 0;
    }
    flight->sp = sp;
    flight->mark = flight->capture = flight->communicator = flight->seq = flight->caller = 0;
    flight->slot = 0;
    flight->rule = number;
    flight->op = rule->op;
    flight->layer = rule->layer;
    flight->first = flight->waiting = flight->waited = 0;
    flight->class = rule->class;
    flight->slice = 0;
    return flight;
}

static __always_inline void read_args(struct pt_regs *regs, const struct rule *rule, struct flight *flight) {
    flight->args[0] = PT_REGS_PARM1(regs);
    flight->args[1] = PT_REGS_PARM2(regs);
    flight->args[2] = PT_REGS_PARM3(regs);
    flight->args[3] = PT_REGS_PARM4(regs);
    flight->args[4] = PT_REGS_PARM5(regs);
    flight->args[5] = PT_REGS_PARM6(regs);
#if defined(__TARGET_ARCH_arm64)
    flight->args[6] = PT_REGS_PARM7(regs);
    flight->args[7] = PT_REGS_PARM8(regs);
#endif
    if (rule->flags & RULE_STACK_ARGS)
        bpf_probe_read_user(&flight->args[REGISTER_ARGS], sizeof(u64) * (CALL_ARGS - REGISTER_ARGS),
                            (void *)(flight->sp + FIRST_STACK_ARG_OFFSET));
    flight->stream = stream_of(rule, flight);
    flight->direction = direction_of(rule, flight);
}

static __always_inline struct rule *rule_of(u32 number) {
    return bpf_map_lookup_elem(&rules, &number);
}

/* The cookie of an attached function: its rule, and the file it is in. */
#define COOKIE_RULE(cookie) ((u16)(cookie))
#define COOKIE_LIBRARY(cookie) ((u16)((cookie) >> 16))

/* A call begins; its flight, where it is followed and its return wanted. */
static __always_inline struct flight *call_begin(struct pt_regs *regs, u64 cookie, struct task *task,
                                                 const struct rule *rule) {
    struct flight *flight = new_flight(task, rule, COOKIE_RULE(cookie), ENTRY_SP(regs, false));
    if (!flight)
        return 0;
    flight->library = COOKIE_LIBRARY(cookie);
    read_args(regs, rule, flight);
    return flight;
}

/* A draw from a nanosecond: a multiplicative hash is spread evenly, and costs a tenth of the kernel's
 * generator. */
static __always_inline u32 chance(u64 now) {
    return (now * 0x9e3779b97f4a7c15ULL) >> 40;
}

/* The flight that returns, taken off. Frames above it were left without a return. None: a nested call, not
 * followed. */
static __always_inline struct flight *take_flight(struct task *task, u64 sp) {
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        struct flight *flight = flight_at(task, task->depth - 1 - i);
        if (!flight)
            return 0;
        if (flight->sp == sp) {
            task->depth -= i + 1;
            return flight;
        }
    }
    return 0;
}

/* A call begins now. From here on what holds the thread up is billed to it, an interrupt at this very moment
 * included: so the time is taken before. */
static __always_inline void begin_flight(struct task *task, struct flight *flight) {
    settle(task);
    flight->start_ns = bpf_ktime_get_ns();
    task->depth++;
}

/* Takes off the flight that returns, and then the time: nothing can be billed to it that came later. */
static __always_inline struct flight *end_flight(struct task *task, u64 sp, u64 *now) {
    settle(task);
    struct flight *flight = take_flight(task, sp);
    *now = bpf_ktime_get_ns();
    return flight;
}

/* Returns whether the call is followed, and so its return wanted. */
static __always_inline bool call_enter(struct pt_regs *regs, u64 cookie) {
    struct task *task = task_of_caller(bpf_get_current_pid_tgid() >> 32, false);
    struct rule *rule = rule_of(COOKIE_RULE(cookie));
    struct governor *governor = governor_here();
    if (!task || !rule || !governor)
        return false;
    u64 now = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
    struct slice *slice = rule->class ? slice_of(rule->class) : 0;
    if (slice && !is_open(slice, now)) {
        charge_beside(task, governor->entry_ns);
        return false;
    }
    struct flight *flight = call_begin(regs, cookie, task, rule);
    if (!flight) {
        /* Nested in one that is followed: a trap all the same. */
        charge(task, governor->entry_ns);
        return false;
    }
    settle_debt(task, governor, now);
    if (slice) {
        flight->slice = slice->number;
        if (is_over_limit(task, slice)) {
            close_slice(task, slice, rule->class, now);
            charge_beside(task, governor->entry_ns);
            return false;
        }
    }
    work_enter(task, rule, flight, id, now);
    if (rule->flags & RULE_NO_RETURN) {
        charge(task, governor->entry_ns);
        return false;
    }
    charge(task, governor->pair_ns);
    begin_flight(task, flight);
    return true;
}

/* Counts a call that has returned, and keeps it if there is a reason to. */
static __always_inline void count_and_keep(struct pt_regs *regs, struct task *task, const struct rule *rule,
                                           struct flight *flight, s32 ret, bool failed, u64 now) {
    u64 duration_ns = now - flight->start_ns;
    u64 bytes = bytes_of(rule, flight, ret);
    /* A slice has the calls that began in it, whenever they return. */
    u64 counted_ns = flight->class ? flight->start_ns : now;
    struct window_sum *sum = window_of(bpf_get_current_pid_tgid(), flight, counted_ns);
    if (!sum) {
        count_loss(LOSS_WINDOWS_FULL);
        return;
    }
    count_call(sum, flight, duration_ns, bytes, failed);
    bill_cost(sum, task);
    bool sampled = (chance(now) & rule->sample_mask) == 0;
    u32 kept = why_keep(rule, sum, duration_ns, failed, sampled);
    if (kept == KEPT_NOT && ((rule->flags & RULE_STATE) || flight->capture || flight->first))
        kept = KEPT_STATE;
    if (kept != KEPT_NOT && keep_call(regs, task, rule, flight, ret, duration_ns, bytes, kept, sampled) &&
        kept != KEPT_STATE)
        sum->kept++;
}

static __always_inline void call_return(struct pt_regs *regs) {
    u64 now = 0;
    struct task *task = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
    if (!task)
        return;
    struct flight *flight = end_flight(task, ENTRY_SP(regs, true), &now);
    struct rule *rule = flight ? rule_of(flight->rule) : 0;
    if (!rule)
        return;
    s32 ret = (s32)PT_REGS_RC(regs);
    work_return(task, rule, flight, bpf_get_current_pid_tgid(), ret, now);
    count_and_keep(regs, task, rule, flight, ret, ret != 0 && ret != rule->benign_ret, now);
}
