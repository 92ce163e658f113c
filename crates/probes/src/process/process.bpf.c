// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Births, exec and deaths of traced processes and their threads. */
#include "blame.h"
#include "gil.h"
#include "process.h"
#include "target.h"

static __always_inline bool waits_only(u32 flags) {
    return flags & TARGET_WAITS;
}

/* The record of a new thread. Memory can be had here: copy_process() is done and holds no lock, which is not
 * so where the scheduler's tracepoints are. */
static __always_inline void follow(struct task_struct *child) {
    struct task *task = bpf_task_storage_get(&tasks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (task)
        task->target = 1;
    else
        count_loss(LOSS_TASKS_FULL);
}

/* The parent is current. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child) {
    u32 *flags = target_of(parent->tgid);
    if (!flags)
        return 0;
    if (child->tgid == parent->tgid) {
        follow(child);
        emit_process(PROCESS_THREAD, child->pid, 0, waits_only(*flags));
        return 0;
    }
    u32 key = child->tgid, of_child = flags_of_child(*flags);
    if (of_child && bpf_map_update_elem(&targets, &key, &of_child, BPF_ANY))
        count_loss(LOSS_TARGETS_FULL);
    else if (of_child)
        follow(child);
    /* A child has its parent's memory. */
    u32 parent_key = parent->tgid, child_key = child->tgid;
    struct python *python = bpf_map_lookup_elem(&pythons, &parent_key);
    if (python)
        bpf_map_update_elem(&pythons, &child_key, python, BPF_ANY);
    emit_process(PROCESS_FORK, child->tgid, 0, waits_only(*flags));
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task) {
    u32 *flags = target_of(task->tgid);
    if (!flags)
        return 0;
    /* Task storage outlives exec; the calls in flight do not. */
    struct task *followed = bpf_task_storage_get(&tasks, task, 0, 0);
    if (followed) {
        followed->depth = 0;
        followed->group_depth = 0;
        followed->device_next = 0;
        __builtin_memset(followed->streams, 0, sizeof(followed->streams));
        __builtin_memset(followed->functions, 0, sizeof(followed->functions));
    }
    u32 tgid = task->tgid;
    bpf_map_delete_elem(&pythons, &tgid);
    emit_process(PROCESS_EXEC, 0, 0, waits_only(*flags));
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task) {
    u32 tgid = task->tgid, *flags = target_of(tgid);
    if (!flags)
        return 0;
    bool waits = waits_only(*flags);
    /* do_exit() has already taken this thread off the count of living ones. */
    if (BPF_CORE_READ(task, signal, live.counter) > 0) {
        emit_process(PROCESS_THREAD_EXIT, 0, 0, waits);
        return 0;
    }
    emit_process(PROCESS_EXIT, 0, task->exit_code, waits);
    bpf_map_delete_elem(&targets, &tgid);
    bpf_map_delete_elem(&pythons, &tgid);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
