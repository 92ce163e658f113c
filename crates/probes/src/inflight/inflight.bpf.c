// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls that have not returned: user space walks over the host's threads now and then, so that a call that
 * hangs is seen while it does. */
#include "blame.h"

/* A call that has not returned, as user space asks for them now and then. */
struct in_flight {
    u64 now_ns;
    u64 start_ns;
    u64 stream;
    u64 args[6];
    u64 communicator;
    u64 seq;
    u64 thread_pointer;
    u32 tgid;
    u32 tid;
    u16 rule;
    u16 op;
    u8 layer;
    u8 depth;
    u16 reserved;
};

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx) {
    struct seq_file *seq = ctx->meta->seq;
    struct task_struct *thread = ctx->task;
    if (!thread)
        return 0;
    struct task *task = bpf_task_storage_get(&tasks, thread, 0, 0);
    if (!task)
        return 0;
    for (u32 i = 0; i < CALL_DEPTH; i++) {
        if (i >= task->depth)
            break;
        struct flight *flight = &task->flights[i];
        struct in_flight out = {
            .now_ns = bpf_ktime_get_ns(),
            .start_ns = flight->start_ns,
            .stream = flight->stream,
            .communicator = flight->communicator,
            .seq = flight->seq,
            .thread_pointer = thread_pointer(thread),
            .tgid = thread->tgid,
            .tid = thread->pid,
            .rule = flight->rule,
            .op = flight->op,
            .layer = flight->layer,
            .depth = i,
        };
        __builtin_memcpy(out.args, flight->args, sizeof(out.args));
        bpf_seq_write(seq, &out, sizeof(out));
    }
    return 0;
}

/* Where a followed thread runs. */
struct place {
    u32 tgid;
    u32 tid;
    u32 cpu;
    u32 node;
    u64 migrations;
    u64 node_migrations;
};

SEC("iter/task")
int each_place(struct bpf_iter__task *ctx) {
    struct task_struct *thread = ctx->task;
    struct task *task = thread ? bpf_task_storage_get(&tasks, thread, 0, 0) : 0;
    if (!task || !task->calls || !task->cpu_next)
        return 0;
    struct place out = {
        .tgid = thread->tgid,
        .tid = thread->pid,
        .cpu = task->cpu_next - 1,
        .node = task->node,
        .migrations = task->migrations,
        .node_migrations = task->node_migrations,
    };
    bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
    return 0;
}

/* A followed thread that is in no GPU call, or blocked in one. */
struct between {
    u64 now_ns;
    u64 since_ns; /* 0 on the CPU */
    u64 thread_pointer;
    u32 tgid;
    u32 tid;
    u64 last_call_ns;
    u32 part; /* enum reason, or PART_RUNNABLE, PART_ON_CPU */
    u16 op;   /* the call it is in; 0 for none */
    u16 reserved;
};

/* A thread that makes no calls and has waited for longer is idle: nothing new can be said of it. */
#define IDLE_NS 10000000000ULL

SEC("iter/task")
int each_between(struct bpf_iter__task *ctx) {
    struct task_struct *thread = ctx->task;
    struct task *task = thread ? bpf_task_storage_get(&tasks, thread, 0, 0) : 0;
    if (!task || !task->target)
        return 0;
    u8 state = task->state;
    u64 now = bpf_ktime_get_ns(), last_call = task->flights[0].start_ns;
    if (task->depth && state != TASK_BLOCKED)
        return 0;
    if (!last_call && state == TASK_BLOCKED && now > task->off_since_ns + IDLE_NS)
        return 0;
    struct between out = {
        .now_ns = now,
        .since_ns = state == TASK_ON_CPU ? 0 : task->off_since_ns,
        .thread_pointer = thread_pointer(thread),
        .tgid = thread->tgid,
        .tid = thread->pid,
        .last_call_ns = last_call,
        .op = op_in_flight(task),
        .part = state == TASK_BLOCKED    ? task->reason
                : state == TASK_RUNNABLE ? PART_RUNNABLE
                                         : PART_ON_CPU,
    };
    bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
    return 0;
}

/* Where a thread was in user space when it last came into the kernel: for one that waits, where it is. */
#define MAX_SWAPS 8

struct swap {
    u64 at;
    u64 original;
};

struct registers {
    u64 ip;
    u64 sp;
    u64 bp;
    u32 tgid;
    u32 tid;
    u32 swaps;
    u32 reserved;
    struct swap swap[MAX_SWAPS]; /* return addresses that probes have put their own in place of */
};

SEC("iter/task")
int each_registers(struct bpf_iter__task *ctx) {
    struct task_struct *thread = ctx->task;
    struct task *task = thread ? bpf_task_storage_get(&tasks, thread, 0, 0) : 0;
    if (!task || !task->target || !task->flights[0].start_ns)
        return 0;
    struct pt_regs *regs = (void *)bpf_task_pt_regs(thread);
    struct registers out = {
        .ip = PT_REGS_IP_CORE(regs),
        .sp = PT_REGS_SP_CORE(regs),
        .bp = PT_REGS_FP_CORE(regs),
        .tgid = thread->tgid,
        .tid = thread->pid,
    };
    struct return_instance *returns = BPF_CORE_READ(thread, utask, return_instances);
    for (u32 i = 0; i < MAX_SWAPS; i++) {
        if (!returns)
            break;
        if (!BPF_CORE_READ(returns, chained)) {
            out.swap[i].at = BPF_CORE_READ(returns, stack);
            out.swap[i].original = BPF_CORE_READ(returns, orig_ret_vaddr);
        }
        out.swaps = i + 1;
        returns = BPF_CORE_READ(returns, next);
    }
    bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
    return 0;
}

KEEP_TYPE(struct, registers);
KEEP_TYPE(struct, in_flight);
KEEP_TYPE(struct, between);
KEEP_TYPE(struct, place);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
