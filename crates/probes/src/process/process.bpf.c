// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Births, exec and deaths of traced processes and their threads. */
#include "blame.h"
#include "gil.h"
#include "process.h"
#include "target.h"

/* The parent is current. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child) {
    u32 *flags = target_of(parent->tgid);
    if (!flags)
        return 0;
    if (child->tgid == parent->tgid) {
        emit_process(PROCESS_THREAD, child->pid, 0);
        return 0;
    }
    if (*flags & TARGET_FOLLOW) {
        u32 key = child->tgid, follow = TARGET_FOLLOW;
        if (bpf_map_update_elem(&targets, &key, &follow, BPF_ANY))
            count_loss(LOSS_TARGETS_FULL);
    }
    /* A child has its parent's memory. */
    u32 parent_key = parent->tgid, child_key = child->tgid;
    struct python *python = bpf_map_lookup_elem(&pythons, &parent_key);
    if (python)
        bpf_map_update_elem(&pythons, &child_key, python, BPF_ANY);
    emit_process(PROCESS_FORK, child->tgid, 0);
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
    emit_process(PROCESS_EXEC, 0, 0);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task) {
    u32 tgid = task->tgid;
    if (!target_of(tgid))
        return 0;
    /* do_exit() has already taken this thread off the count of living ones. */
    if (BPF_CORE_READ(task, signal, live.counter) > 0) {
        emit_process(PROCESS_THREAD_EXIT, 0, 0);
        return 0;
    }
    emit_process(PROCESS_EXIT, 0, task->exit_code);
    bpf_map_delete_elem(&targets, &tgid);
    bpf_map_delete_elem(&pythons, &tgid);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
