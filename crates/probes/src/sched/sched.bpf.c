// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Drives the blame clock: every wait of a followed thread is billed to its calls in flight, and to whoever
 * was behind it: the tasks that had the CPU meanwhile, or the task that woke it. */
#include "blame.h"
#include "event.h"

#define SYSCALLS 512
#define RUNS 32        /* runs remembered per CPU, a power of two */
#define RUNS_BILLED 16 /* runs looked back over when a wait ends */

/* Since 5.18 the tracepoint hands over the state the task went to sleep with. */
const volatile bool switch_has_state = false;
/* enum reason by system call number, made by the loader from names. */
const volatile u8 syscall_reasons[SYSCALLS];
const volatile u32 futex_syscalls[4];

struct who {
    u32 tgid;
    u32 tid;
    char comm[COMM_LEN];
};

struct run {
    u64 end_ns;
    struct who who;
};

struct cpu_runs {
    u32 head;
    struct run runs[RUNS];
};

/* What each CPU ran lately: written by the context switch alone, which cannot interrupt itself. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu_runs);
} cpu_runs SEC(".maps");

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

static __always_inline void bill_wait(struct task_struct *victim, u16 op, u32 part, const struct who *by,
                                      u64 now, u64 ns) {
    struct wait_key key = {.tgid = victim->tgid,
                           .tid = victim->pid,
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
    struct wait_sum first = {.ns = ns, .count = 1};
    __builtin_memcpy(first.by_comm, by->comm, COMM_LEN);
    if (bpf_map_update_elem(&waits, &key, &first, BPF_ANY))
        count_loss(LOSS_WAITS_FULL);
}

static __always_inline void remember_run(struct cpu_runs *cpu, struct task_struct *task, u64 now) {
    struct run *run = &cpu->runs[cpu->head++ & (RUNS - 1)];
    run->end_ns = now;
    run->who.tgid = task->tgid;
    run->who.tid = task->pid;
    __builtin_memcpy(run->who.comm, task->comm, COMM_LEN);
}

/* Bills a wait for the CPU to the tasks that ran on it meanwhile, latest first. A run lasted from the end of
 * the one before it to its own end. */
static __always_inline void bill_runnable(struct cpu_runs *cpu, struct task_struct *victim, u16 op, u64 since,
                                          u64 now) {
    static const struct who nobody;
    u64 until = now;
    u32 newest = cpu->head - 1;
    for (u32 i = 0; i < RUNS_BILLED; i++) {
        struct run *run = &cpu->runs[(newest - i) & (RUNS - 1)];
        u64 began = cpu->runs[(newest - i - 1) & (RUNS - 1)].end_ns;
        if (run->end_ns <= since)
            return;
        u64 from = began > since ? began : since;
        if (until > from) {
            bill_wait(victim, op, PART_RUNNABLE, &run->who, now, until - from);
            until = from;
        }
        if (began <= since)
            return;
    }
    if (until > since)
        bill_wait(victim, op, PART_RUNNABLE, &nobody, now, until - since);
}

static __always_inline long syscall_of(struct task_struct *task) {
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
    return (long)BPF_CORE_READ(regs, orig_ax);
#else
    return BPF_CORE_READ(regs, syscallno);
#endif
}

static __always_inline u8 why_blocked(struct task_struct *task) {
    if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
        return REASON_BLOCK_IO;
    long nr = syscall_of(task);
    /* -1: the kernel was entered by an exception, and the only one that sleeps is a page fault. */
    if (nr < 0)
        return REASON_FAULT;
    return nr < SYSCALLS ? syscall_reasons[nr & (SYSCALLS - 1)] : REASON_OTHER;
}

static __always_inline u16 op_in_flight(const struct task *task) {
    return task->depth ? task->flights[0].op : 0;
}

/* Threads of processes that are not traced are followed in driver calls only. */
static __always_inline bool is_of_interest(const struct task *task) {
    return task->target || task->depth;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx) {
    bool preempted = ctx[0];
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 zero = 0;
    struct cpu_runs *cpu = bpf_map_lookup_elem(&cpu_runs, &zero);
    if (!cpu)
        return 0;
    u64 now = bpf_ktime_get_ns();
    remember_run(cpu, prev, now);

    struct task *task = bpf_task_storage_get(&tasks, prev, 0, 0);
    if (task) {
        u64 state = switch_has_state ? (u32)ctx[3] : prev->__state;
        task->off_since_ns = now;
        if (preempted || state == 0) {
            task->state = TASK_RUNNABLE;
        } else {
            task->reason = why_blocked(prev);
            task->state = TASK_BLOCKED;
        }
    }

    task = bpf_task_storage_get(&tasks, next, 0, 0);
    if (task && task->state != TASK_ON_CPU) {
        u64 since = task->off_since_ns;
        u32 part = task->state == TASK_RUNNABLE ? PART_RUNNABLE : task->reason;
        task->state = TASK_ON_CPU;
        if (now > since && is_of_interest(task)) {
            u16 op = op_in_flight(task);
            static const struct who nobody;
            bill_flights(task, part, now - since);
            if (part == PART_RUNNABLE)
                bill_runnable(cpu, next, op, since, now);
            else
                bill_wait(next, op, part, &nobody, now, now - since);
        }
    }
    return 0;
}

/* Only a futex call, or a thread's end, wakes a futex waiter on purpose; else a timer did, in whoever's time.
 */
static __always_inline bool wakes_on_purpose(struct task_struct *waker, u8 reason) {
    if (reason != REASON_FUTEX)
        return true;
    long nr = syscall_of(waker);
    for (u32 i = 0; i < 4; i++)
        if (nr == (long)futex_syscalls[i])
            return true;
    return false;
}

/* Fires in the waker, before the task is put on a run queue. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken) {
    struct task *task = bpf_task_storage_get(&tasks, woken, 0, 0);
    if (!task || task->state != TASK_BLOCKED)
        return 0;
    u64 now = bpf_ktime_get_ns();
    u64 since = task->off_since_ns;
    u8 reason = task->reason;
    task->off_since_ns = now;
    task->state = TASK_RUNNABLE;
    if (now <= since || !is_of_interest(task))
        return 0;
    bill_flights(task, reason, now - since);
    struct task_struct *waker = bpf_get_current_task_btf();
    struct who by = {};
    if (waker->pid && wakes_on_purpose(waker, reason)) {
        by.tgid = waker->tgid;
        by.tid = waker->pid;
        __builtin_memcpy(by.comm, waker->comm, COMM_LEN);
    }
    bill_wait(woken, op_in_flight(task), reason, &by, now, now - since);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
