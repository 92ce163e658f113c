/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits that are told of one by one: those that took long, so many of a thread in a window. All others are in
 * the sums alone. */
#pragma once

#include "bill.h"
#include "file.h"
#include "target.h"

/* Records of a thread in a window; and of one whose process makes GPU calls, or wakes others that do. */
#define TOLD_PER_WINDOW 32
#define MAX_TOLD_PER_WINDOW 128

/* Longer ones have a record in any case: a thread has 50 of them in a window at most, and one that polls must
 * not use up what its long waits need. */
#define ALWAYS_TOLD_NS (WINDOW_NS / 50)

/* Shorter ones are not told of. */
const volatile u64 told_ns = 500000;

/* What ended a wait. The order is that of model's `WokenBy`, after the first. */
enum woken_by { WOKEN_UNKNOWN, WOKEN_BY_TASK, WOKEN_BY_TIMER, WOKEN_BY_INTERRUPT };

/* One wait; head.time_ns is its start, and its process and thread are those that waited. */
struct wait_record {
    struct record head;
    u64 duration_ns;
    struct who by;
    struct ends ends;
    u64 address; /* of a futex, or of a page fault */
    u64 inode;
    u32 device; /* of the file system */
    u32 mode;
    s32 fd; /* -1 where it waited on no file */
    u32 syscall;
    u32 target_cpu;
    s32 node;
    u16 op;
    u16 part;     /* enum reason, or PART_RUNNABLE */
    u32 woken_by; /* enum woken_by */
};

static __always_inline bool is_told(u32 tgid, struct task *task, u64 now, u64 ns) {
    if (ns < told_ns)
        return false;
    if (ns >= ALWAYS_TOLD_NS)
        return true;
    u32 window = now / WINDOW_NS;
    if (task->events_window != window) {
        task->events_window = window;
        task->events = 0;
    }
    u32 before = task->events++;
    if (before < TOLD_PER_WINDOW)
        return true;
    if (before >= MAX_TOLD_PER_WINDOW)
        return false;
    u32 *flags = target_of(tgid);
    return flags && (*flags & (TARGET_SEEN | TARGET_WAKER));
}

static __always_inline void fill_file(struct wait_record *out, struct task_struct *victim, s32 fd) {
    struct file *file = fd >= 0 ? file_of_fd(victim, fd) : 0;
    out->fd = file ? fd : -1;
    out->inode = file ? BPF_CORE_READ(file, f_inode, i_ino) : 0;
    out->device = file ? BPF_CORE_READ(file, f_inode, i_sb, s_dev) : 0;
    out->mode = file ? BPF_CORE_READ(file, f_inode, i_mode) : 0;
    read_ends(sock_of_file(file), &out->ends);
}

/* A wait that has just ended. */
struct ended {
    const struct who *by;
    u64 address;
    u64 now;
    u64 ns;
    u32 part;
    s32 fd;
    u32 woken_by;
    u32 reserved;
};

/* Tells of a wait, if it is worth it. */
static __noinline int tell(struct task_struct *victim, struct task *task, const struct ended *wait) {
    u32 cpu = bpf_get_smp_processor_id();
    void *ring = ring_of_cpu(cpu);
    struct wait_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_TOLD_RING);
        return 0;
    }
    out->head.time_ns = wait->now - wait->ns;
    out->head.kind = RECORD_WAIT;
    out->head.cpu = task->cpu_next ? task->cpu_next - 1 : 0;
    out->head.tgid = victim->tgid;
    out->head.tid = victim->pid;
    out->head.reserved = 0;
    /* Not read directly: each step of such a path takes the verifier a millisecond, as it looks for names in
     * all of the kernel's types (type_is_rcu() and its kind), and this is on many ways. */
    out->head.cgroup_id = BPF_CORE_READ(victim, cgroups, dfl_cgrp, kn, id);
    out->duration_ns = wait->ns;
    out->by = *wait->by;
    out->address = wait->address;
    out->syscall = task->syscall_nr;
    out->target_cpu = cpu;
    out->node = bpf_get_numa_node_id();
    out->op = op_in_flight(task);
    out->part = wait->part;
    out->woken_by = wait->woken_by;
    fill_file(out, victim, wait->fd);
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

static __always_inline void tell_wake(struct task_struct *victim, struct task *task, u32 part,
                                      const struct who *by, u32 woken_by, u64 address, s32 fd, u64 now,
                                      u64 ns) {
    if (!is_told(victim->tgid, task, now, ns))
        return;
    struct ended wait = {
        .by = by, .address = address, .now = now, .ns = ns, .part = part, .fd = fd, .woken_by = woken_by};
    tell(victim, task, &wait);
}

/* The same where no wake-up ended it, or none was seen. */
static __always_inline void tell_wait(struct task_struct *victim, struct task *task, u32 part,
                                      const struct who *by, u64 address, s32 fd, u64 now, u64 ns) {
    tell_wake(victim, task, part, by, WOKEN_UNKNOWN, address, fd, now, ns);
}

KEEP_TYPE(enum, woken_by);
KEEP_TYPE(struct, wait_record);
