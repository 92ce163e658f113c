/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who is billed for a thread's time: the tasks that had the CPU meanwhile, the task that woke it or held its
 * lock, the interrupt; summed by window, thread, operation and reason. */
#pragma once

#include "blame.h"
#include "event.h"

struct who {
    u32 tgid;
    u32 tid; /* for interrupts: their number, with no tgid */
    u64 cgroup_id;
    char comm[COMM_LEN];
};

struct wait_key {
    u32 tgid;
    u32 tid;
    u32 by_tgid;
    u32 by_tid;
    u32 window;
    u16 op;
    u16 part; /* enum reason, or PART_RUNNABLE */
};

struct wait_sum {
    u64 ns;
    u64 count;
    u64 by_cgroup_id;
    char by_comm[COMM_LEN];
};

/* Preallocated: the context switch holds the run queue's lock, and kernels before 6.1 would allocate there.
 */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct wait_key);
    __type(value, struct wait_sum);
} waits SEC(".maps");

static __always_inline void bill_thread(u32 tgid, u32 tid, u16 op, u32 part, const struct who *by, u64 now,
                                        u64 ns) {
    struct wait_key key = {.tgid = tgid,
                           .tid = tid,
                           .by_tgid = by->tgid,
                           .by_tid = by->tid,
                           .window = now / WINDOW_NS,
                           .op = op,
                           .part = part};
    struct wait_sum *sum = bpf_map_lookup_elem(&waits, &key);
    if (sum) {
        __sync_fetch_and_add(&sum->ns, ns);
        __sync_fetch_and_add(&sum->count, 1);
        return;
    }
    struct wait_sum first = {.ns = ns, .count = 1, .by_cgroup_id = by->cgroup_id};
    __builtin_memcpy(first.by_comm, by->comm, COMM_LEN);
    if (bpf_map_update_elem(&waits, &key, &first, BPF_ANY))
        count_loss(LOSS_WAITS_FULL);
}

static __always_inline void bill_wait(struct task_struct *victim, u16 op, u32 part, const struct who *by,
                                      u64 now, u64 ns) {
    bill_thread(victim->tgid, victim->pid, op, part, by, now, ns);
}

/* Read directly, as the kernel vouches for the pointer: this runs at every context switch. */
static __always_inline u64 cgroup_of(struct task_struct *task) {
    return task->cgroups->dfl_cgrp->kn->id;
}

static __always_inline void name_task(struct who *who, struct task_struct *task, u64 cgroup_id) {
    who->tgid = task->tgid;
    who->tid = task->pid;
    who->cgroup_id = cgroup_id;
    __builtin_memcpy(who->comm, task->comm, COMM_LEN);
}

/* The current thread runs, so its last wait is over, whatever was seen of its end: some kernels do not tell
 * of every switch from idle. The end was before now by what it ran since, as far as the kernel has counted.
 */
static __always_inline void settle(struct task *task) {
    if (task->state == TASK_ON_CPU)
        return;
    struct task_struct *current = bpf_get_current_task_btf();
    u64 now = bpf_ktime_get_ns();
    u32 part = task->state == TASK_RUNNABLE ? PART_RUNNABLE : task->reason;
    u64 ran = current->se.sum_exec_runtime - task->ran_ns;
    u64 since = task->off_since_ns;
    task->state = TASK_ON_CPU;
    if (now > since + ran && is_billed(task)) {
        struct who nobody = {};
        bill_flights(task, part, now - since - ran);
        bill_wait(current, op_in_flight(task), part, &nobody, now, now - since - ran);
    }
}

/* Bills time the current thread spent in the kernel on its own CPU. */
static __always_inline void bill_current(struct task_struct *current, struct task *task, u32 reason,
                                         const struct who *by, u64 now, u64 ns) {
    if (!ns || !is_billed(task))
        return;
    bill_flights(task, reason, ns);
    bill_wait(current, op_in_flight(task), reason, by, now, ns);
}
