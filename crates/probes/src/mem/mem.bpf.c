// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Memory that was not there: page faults, and the kernel freeing memory in the time of the thread that asked
 * for some. Time on the CPU counts, not only waits. A fault begins with the exception and ends with the
 * kernel's own count of it, which comes when the page is in place. */
#include "told.h"

/* The process that was killed; the killer is current. */
struct oom_record {
    struct record head;
    u32 victim;
    u32 reserved;
};

static const struct who nobody;

static __always_inline struct task *task_of(struct task_struct *current) {
    return bpf_task_storage_get(&tasks, current, 0, 0);
}

static __always_inline void bill_stretch(struct task_struct *current, struct task *task,
                                         struct stretch *stretch, u32 reason, u64 address) {
    u64 now = bpf_ktime_get_ns();
    u64 ns = end_stretch(task, stretch, now);
    bill_current(current, task, reason, &nobody, now, ns);
    if (ns && is_of_interest(task))
        tell_wait(current, task, reason, &nobody, address, -1, now, ns);
}

static __always_inline int fault_begins(u64 address) {
    struct task *task = task_of(bpf_get_current_task_btf());
    if (task) {
        begin_stretch(task, &task->fault, bpf_ktime_get_ns());
        task->fault_address = address;
    }
    return 0;
}

static __always_inline int fault_ends(void) {
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = task_of(current);
    if (task && task->fault.since_ns)
        bill_stretch(current, task, &task->fault, REASON_FAULT, task->fault_address);
    return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault, unsigned long address) {
    return fault_begins(address);
}

/* The kernel touching user memory in a system call. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_kernel_fault, unsigned long address) {
    return fault_begins(address);
}

/* Named after the event they go on. */
SEC("perf_event")
int page_faults_min(void *ctx) {
    return fault_ends();
}

SEC("perf_event")
int page_faults_maj(void *ctx) {
    return fault_ends();
}

static __always_inline int reclaim_begins(void) {
    struct task *task = task_of(bpf_get_current_task_btf());
    if (task && !task->reclaim_depth++)
        begin_stretch(task, &task->reclaim, bpf_ktime_get_ns());
    return 0;
}

static __always_inline int reclaim_ends(void) {
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = task_of(current);
    if (task && task->reclaim_depth && !--task->reclaim_depth)
        bill_stretch(current, task, &task->reclaim, REASON_RECLAIM, 0);
    return 0;
}

/* Programs are attached in this order. The ends first: a beginning whose end is missed would count as going
 * on for ever. */
SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int on_reclaim_end(void *ctx) {
    return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int on_cgroup_reclaim_end(void *ctx) {
    return reclaim_ends();
}

SEC("tp_btf/mm_compaction_end")
int on_compaction_end(void *ctx) {
    return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int on_reclaim(void *ctx) {
    return reclaim_begins();
}

/* At the limit of its cgroup. */
SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int on_cgroup_reclaim(void *ctx) {
    return reclaim_begins();
}

SEC("tp_btf/mm_compaction_begin")
int on_compaction(void *ctx) {
    return reclaim_begins();
}

struct mark_victim {
    u64 common;
    s32 pid;
};

SEC("tracepoint/oom/mark_victim")
int on_oom(struct mark_victim *ctx) {
    void *ring = ring_of_cpu(bpf_get_smp_processor_id());
    struct oom_record *out = ring ? bpf_ringbuf_reserve(ring, sizeof(*out), 0) : 0;
    if (!out) {
        count_loss(LOSS_TOLD_RING);
        return 0;
    }
    fill_header(&out->head, RECORD_OOM, bpf_ktime_get_ns());
    out->victim = ctx->pid;
    out->reserved = 0;
    bpf_ringbuf_submit(out, submit_flags(ring));
    return 0;
}

KEEP_TYPE(struct, oom_record);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
