/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits that are told of one by one: those that took long, so many of a thread in a window. All others are in
 * the sums alone. */
#pragma once

#include "bill.h"
#include "file.h"

#define TOLD_PER_WINDOW 32

/* Shorter ones are not told of. */
const volatile u64 told_ns = 1000000;

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
    u16 part; /* enum reason, or PART_RUNNABLE */
    u32 reserved;
};

static __always_inline bool is_told(struct task *task, u64 now, u64 ns) {
    if (ns < told_ns)
        return false;
    u32 window = now / WINDOW_NS;
    if (task->events_window != window) {
        task->events_window = window;
        task->events = 0;
    }
    return task->events++ < TOLD_PER_WINDOW;
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
    out->head.cgroup_id = cgroup_of(victim);
    out->duration_ns = wait->ns;
    out->by = *wait->by;
    out->address = wait->address;
    out->syscall = task->syscall_nr;
    out->target_cpu = cpu;
    out->node = bpf_get_numa_node_id();
    out->op = op_in_flight(task);
    out->part = wait->part;
    out->reserved = 0;
    fill_file(out, victim, wait->fd);
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

static __always_inline void tell_wait(struct task_struct *victim, struct task *task, u32 part,
                                      const struct who *by, u64 address, s32 fd, u64 now, u64 ns) {
    if (!is_told(task, now, ns))
        return;
    struct ended wait = {.by = by, .address = address, .now = now, .ns = ns, .part = part, .fd = fd};
    tell(victim, task, &wait);
}

KEEP_TYPE(struct, wait_record);
