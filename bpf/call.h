/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A timed library call: one body for entry and one for return, in session, multi and single flavours. Every
 * call is counted exactly; slow, failed, rare and sampled ones are sent whole. */
#pragma once

#include "kept.h"
#include "process.h"
#include "target.h"

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

/* A draw from the nanosecond a call returned in: a multiplicative hash is spread evenly, and costs a tenth of
 * the kernel's generator. */
static __always_inline u32 chance(u64 now) {
    return (now * 0x9e3779b97f4a7c15ULL) >> 40;
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

    bool sampled = (chance(now) & rule->sample_mask) == 0;
    u32 kept = why_keep(rule, sum, duration_ns, failed, sampled);
    if (kept != KEPT_NOT && keep_call(regs, rule, flight, duration_ns, bytes, kept, sampled))
        sum->kept++;
}
