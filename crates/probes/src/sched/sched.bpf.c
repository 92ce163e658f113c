// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Drives the blame clock: every wait of a followed thread is billed to its calls in flight, and to whoever
 * was behind it: the tasks that had the CPU meanwhile, the task that woke it, or the holder of its lock. */
#include "gil.h"
#include "interrupt.h"
#include "told.h"

#define SYSCALLS 512
#define RUNS 32        /* runs remembered per CPU, a power of two */
#define RUNS_BILLED 16 /* runs looked back over when a wait ends */

/* Since 5.18 the tracepoint hands over the state the task went to sleep with. */
const volatile bool switch_has_state = false;
/* Since 5.19 a program can look at another CPU's share of a map. */
const volatile bool sees_other_cpus = false;
/* enum reason by system call number, made by the loader from names. */
const volatile u8 syscall_reasons[SYSCALLS];
const volatile u32 futex_syscalls[4];

/* It lasted until the next one began. */
struct run {
    u64 start_ns;
    struct who who;
};

struct cpu_runs {
    u32 head;
    struct run runs[RUNS];
};

/* What each CPU runs and ran lately: written by its context switch alone, which cannot interrupt itself. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu_runs);
} cpu_runs SEC(".maps");

static __always_inline void remember_run(struct cpu_runs *cpu, struct task_struct *task, u64 now) {
    struct run *run = &cpu->runs[cpu->head & (RUNS - 1)];
    run->start_ns = now;
    name_task(&run->who, task, cgroup_of(task));
    cpu->head++;
}

static const struct who nobody;

/* A look back over the runs of a CPU, for a thread that waited for it. */
struct look {
    u64 since;
    u64 now;
    u64 until; /* not billed yet: from `since` to here */
    u64 most_ns;
    u32 most; /* the run that lasted longest */
    u32 newest;
    u32 tgid;
    u32 tid;
    u32 op;
    u32 is_billed;
};

/* Bills one run; whether to look further back. Global, so that the verifier goes through it once and not once
 * for every way through those before it. */
__noinline int bill_run(struct cpu_runs *cpu, struct look *look, u32 back) {
    if (!cpu || !look)
        return 0;
    u32 place = look->newest - back;
    struct run *run = &cpu->runs[place & (RUNS - 1)];
    u64 began = run->start_ns;
    /* Not yet written to, since the probe is there. */
    if (!began)
        return 0;
    u64 from = began > look->since ? began : look->since;
    if (look->until > from) {
        u64 ns = look->until - from;
        if (look->is_billed)
            bill_thread(look->tgid, look->tid, look->op, PART_RUNNABLE, &run->who, look->now, ns);
        if (ns > look->most_ns) {
            look->most_ns = ns;
            look->most = place;
        }
        look->until = from;
    }
    return began > look->since;
}

/* The CPU that a thread waited for: the one it was taken from, wherever it goes on; one that was woken waits
 * where it then runs. */
static __always_inline struct cpu_runs *waited_for(struct cpu_runs *here, const struct task *task) {
    u32 zero = 0, cpu = task->cpu_next - 1;
    if (!sees_other_cpus || task->woken || !task->cpu_next || cpu == bpf_get_smp_processor_id())
        return here;
    struct cpu_runs *there = bpf_map_lookup_percpu_elem(&cpu_runs, &zero, cpu);
    return there ? there : here;
}

/* Bills a wait for the CPU to the tasks that ran on it meanwhile, latest first; gives the one that ran
 * longest. */
static __always_inline const struct who *bill_runnable(struct cpu_runs *cpu, struct task_struct *victim,
                                                       const struct task *task, u64 since, u64 now) {
    u16 op = op_in_flight(task);
    struct look look = {.since = since,
                        .now = now,
                        .until = now,
                        .newest = cpu->head - 1,
                        .tgid = victim->tgid,
                        .tid = victim->pid,
                        .op = op,
                        .is_billed = is_billed(task)};
    for (u32 i = 0; i < RUNS_BILLED; i++)
        if (!bill_run(cpu, &look, i))
            break;
    if (look.until > since && look.is_billed)
        bill_wait(victim, op, PART_RUNNABLE, &nobody, now, look.until - since);
    return look.most_ns ? &cpu->runs[look.most & (RUNS - 1)].who : &nobody;
}

static __always_inline u64 first_argument(struct task_struct *task) {
#if defined(__TARGET_ARCH_x86)
    return BPF_CORE_READ(user_regs(task), di);
#else
    return BPF_CORE_READ(user_regs(task), user_regs.regs[0]);
#endif
}

static __always_inline u64 second_argument(struct task_struct *task) {
#if defined(__TARGET_ARCH_x86)
    return BPF_CORE_READ(user_regs(task), si);
#else
    return BPF_CORE_READ(user_regs(task), user_regs.regs[1]);
#endif
}

/* A futex of the interpreter's own is its lock, and that one says who has it, where the thread's memory is
 * the one at hand. */
static __always_inline u8 which_lock(struct task_struct *thread, struct task *task, bool is_current) {
    u32 tgid = thread->tgid;
    struct python *python = bpf_map_lookup_elem(&pythons, &tgid);
    if (!python || !is_gil(python, task->syscall_arg))
        return REASON_FUTEX;
    u32 holder = is_current ? gil_holder(python) : 0;
    if (holder && holder != (u32)thread->pid)
        task->holder = (u64)tgid << 32 | holder;
    return REASON_GIL;
}

static __always_inline u8 reason_of_syscall(long nr) {
    return nr >= 0 && nr < SYSCALLS ? syscall_reasons[nr & (SYSCALLS - 1)] : REASON_OTHER;
}

static __always_inline u8 why_blocked(struct task_struct *thread, struct task *task, bool is_current) {
    task->holder = 0;
    long nr = syscall_of(thread);
    task->syscall_nr = nr;
    if (task->reclaim.since_ns)
        return REASON_RECLAIM;
    /* -1: the kernel was entered by an exception, and the only one that sleeps is a page fault. */
    if (nr < 0)
        return REASON_FAULT;
    task->syscall_arg = first_argument(thread);
    if (BPF_CORE_READ_BITFIELD_PROBED(thread, in_iowait))
        return REASON_BLOCK_IO;
    u8 reason = reason_of_syscall(nr);
    if (reason == REASON_FILE && is_socket(file_of_fd(thread, task->syscall_arg)))
        return REASON_SOCKET;
    return reason == REASON_FUTEX ? which_lock(thread, task, is_current) : reason;
}

/* How long the thread's queue was kept from running by its group's quota, ever; and which queue that is. */
static __always_inline u64 throttled_ns(struct task_struct *thread) {
    struct cfs_rq *queue = thread->se.cfs_rq;
    if (bpf_core_field_exists(struct cfs_rq, throttled_clock_self_time))
        return queue->throttled_clock_self_time;
    /* Before 6.6: the group's own, over all its queues. */
    if (bpf_core_field_exists(struct cfs_bandwidth, throttled_time))
        return queue->tg->cfs_bandwidth.throttled_time;
    return 0;
}

static __always_inline void begins_to_wait_for_cpu(struct task_struct *thread, struct task *task,
                                                   bool woken) {
    task->state = TASK_RUNNABLE;
    task->woken = woken;
    task->queue = (u64)thread->se.cfs_rq;
    task->throttled_at_ns = throttled_ns(thread);
}

static __always_inline void note_cpu(struct task *task) {
    u32 cpu_next = bpf_get_smp_processor_id() + 1;
    u32 node = bpf_get_numa_node_id();
    if (task->cpu_next && task->cpu_next != cpu_next) {
        task->migrations++;
        if (node != task->node)
            task->node_migrations++;
    }
    task->cpu_next = cpu_next;
    task->node = node;
}

static __always_inline void leaves_cpu(struct task_struct *thread, struct task *task, bool runnable,
                                       u64 now) {
    task->off_since_ns = now;
    task->ran_ns = thread->se.sum_exec_runtime;
    if (runnable) {
        begins_to_wait_for_cpu(thread, task, false);
    } else {
        task->reason = why_blocked(thread, task, true);
        task->state = TASK_BLOCKED;
    }
}

static __always_inline s32 fd_of(const struct task *task) {
    u8 reason = task->reason;
    bool has = reason == REASON_FILE || reason == REASON_SOCKET || reason == REASON_IOCTL ||
               (reason == REASON_BLOCK_IO && task->syscall_nr < SYSCALLS);
    return has ? (s32)task->syscall_arg : -1;
}

static __always_inline u64 address_of(const struct task *task) {
    switch (task->reason) {
    case REASON_FUTEX:
    case REASON_GIL:
        return task->syscall_arg;
    case REASON_FAULT:
        return task->fault_address;
    default:
        return 0;
    }
}

/* Part of the wait for a CPU was the quota's: the group's queue did not run at all meanwhile. */
static __always_inline u64 bill_throttled(struct task_struct *thread, struct task *task, u64 now, u64 ns) {
    u64 stopped = throttled_ns(thread) - task->throttled_at_ns;
    /* On another CPU's queue: nothing to compare with. */
    if (task->queue != (u64)thread->se.cfs_rq || (s64)stopped <= 0)
        return 0;
    if (stopped > ns)
        stopped = ns;
    if (is_billed(task)) {
        bill_flights(task, REASON_THROTTLED, stopped);
        bill_wait(thread, op_in_flight(task), REASON_THROTTLED, &nobody, now, stopped);
    }
    tell_wait(thread, task, REASON_THROTTLED, &nobody, 0, -1, now, stopped);
    return stopped;
}

/* Who had the CPU is looked for only where somebody is billed, or told. */
static __always_inline void bill_and_tell_runnable(struct cpu_runs *cpu, struct task_struct *thread,
                                                   struct task *task, u64 since, u64 now) {
    if (!is_billed(task) && now - since < told_ns)
        return;
    const struct who *by = bill_runnable(waited_for(cpu, task), thread, task, since, now);
    tell_wait(thread, task, PART_RUNNABLE, by, 0, -1, now, now - since);
}

static __always_inline void gets_cpu(struct cpu_runs *cpu, struct task_struct *thread, struct task *task,
                                     u64 now) {
    u64 since = task->off_since_ns;
    u32 part = task->state == TASK_RUNNABLE ? PART_RUNNABLE : task->reason;
    task->state = TASK_ON_CPU;
    if (now > since && is_of_interest(task)) {
        if (part == PART_RUNNABLE) {
            since += bill_throttled(thread, task, now, now - since);
            if (now > since) {
                bill_flights(task, part, now - since);
                bill_and_tell_runnable(cpu, thread, task, since, now);
            }
        } else {
            bill_flights(task, part, now - since);
            if (is_billed(task))
                bill_wait(thread, op_in_flight(task), part, &nobody, now, now - since);
            tell_wait(thread, task, part, &nobody, address_of(task), fd_of(task), now, now - since);
        }
    }
    note_cpu(task);
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
    struct task *task = bpf_task_storage_get(&tasks, prev, 0, 0);
    if (task) {
        u64 state = switch_has_state ? (u32)ctx[3] : prev->__state;
        leaves_cpu(prev, task, preempted || state == 0, now);
    }
    task = bpf_task_storage_get(&tasks, next, 0, 0);
    if (task && task->state != TASK_ON_CPU)
        gets_cpu(cpu, next, task, now);
    remember_run(cpu, next, now);
    return 0;
}

/* FUTEX_PRIVATE_FLAG in the operation, the second argument: no other process can wake it. */
#define FUTEX_PRIVATE 128

static __always_inline bool is_private_futex(struct task_struct *thread) {
    return syscall_of(thread) == (long)futex_syscalls[0] && (second_argument(thread) & FUTEX_PRIVATE);
}

/* Whether the task that is current when a thread wakes is the one that wanted it to. Only a futex call, or a
 * thread's end, wakes a futex waiter on purpose; else a timer did, in whoever's time. In an interrupt a
 * bystander is current, unless it is itself sending: packets to the same host arrive in their sender's time.
 */
static __always_inline bool wakes_on_purpose(struct task_struct *waker, struct task_struct *woken,
                                             u8 reason) {
    long nr = syscall_of(waker);
    if (reason == REASON_FUTEX || reason == REASON_GIL) {
        /* A timer may run out while somebody is in such a call, and a process takes long to end. */
        if (in_interrupt() || (waker->tgid != woken->tgid && is_private_futex(woken)))
            return false;
        for (u32 i = 0; i < 4; i++)
            if (nr == (long)futex_syscalls[i])
                return true;
        return false;
    }
    if (reason == REASON_SLEEP)
        return false;
    if (!in_interrupt())
        return true;
    u8 sends = reason_of_syscall(nr);
    return (reason == REASON_SOCKET || reason == REASON_POLL) &&
           (sends == REASON_SOCKET || sends == REASON_FILE);
}

/* What ends a wait: the innermost interrupt that the CPU serves, else the task that is current. The idle task
 * wakes nobody by itself. */
static __always_inline u32 woken_by(struct task_struct *waker, struct task_struct *woken, u8 reason) {
    if (in_timer())
        return WOKEN_BY_TIMER;
    if (waker->pid && wakes_on_purpose(waker, woken, reason))
        return WOKEN_BY_TASK;
    return in_interrupt() || (!waker->pid && sees_interrupts()) ? WOKEN_BY_INTERRUPT : WOKEN_UNKNOWN;
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
    begins_to_wait_for_cpu(woken, task, true);
    if (now <= since || !is_of_interest(task))
        return 0;
    bill_flights(task, reason, now - since);
    struct task_struct *waker = bpf_get_current_task_btf();
    u32 how = woken_by(waker, woken, reason);
    struct who by = {};
    if (task->holder) {
        by.tgid = task->holder >> 32;
        by.tid = (u32)task->holder;
    } else if (how == WOKEN_BY_TASK) {
        name_task(&by, waker, bpf_get_current_cgroup_id());
    }
    if (is_billed(task))
        bill_wait(woken, op_in_flight(task), reason, &by, now, now - since);
    tell_wake(woken, task, reason, &by, how, address_of(task), fd_of(task), now, now - since);
    return 0;
}

/* Sleeping states; others are those of threads that run, are stopped or end. */
#define TASK_SLEEPS 3

/* The state of a thread that was not followed so far. It goes on meanwhile: where it does, its next context
 * switch puts right what is said here. */
static __always_inline void begin_in_the_middle(struct task_struct *thread, struct task *task) {
    if (bpf_core_field_exists(thread->on_cpu) && thread->on_cpu)
        return;
    u32 state = thread->__state;
    task->ran_ns = thread->se.sum_exec_runtime;
    task->off_since_ns = bpf_ktime_get_ns();
    if (state & TASK_SLEEPS) {
        task->reason = why_blocked(thread, task, false);
        task->state = TASK_BLOCKED;
    } else if (!state) {
        begins_to_wait_for_cpu(thread, task, true);
    }
    if (bpf_core_field_exists(thread->on_cpu) && thread->on_cpu)
        task->state = TASK_ON_CPU;
}

/* Gives a record to the threads that targets had before they became targets. User space walks when there is a
 * new one: here memory can be had, which is not so in the scheduler's tracepoints. */
SEC("iter/task")
int follow_threads(struct bpf_iter__task *ctx) {
    struct task_struct *thread = ctx->task;
    if (!thread || !target_of(thread->tgid))
        return 0;
    struct task *task = bpf_task_storage_get(&tasks, thread, 0, 0);
    if (!task) {
        task = bpf_task_storage_get(&tasks, thread, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!task) {
            count_loss(LOSS_TASKS_FULL);
            return 0;
        }
        begin_in_the_middle(thread, task);
    }
    task->target = 1;
    return 0;
}

KEEP_TYPE(struct, wait_key);
KEEP_TYPE(struct, wait_sum);

char LICENSE[] SEC("license") = "Dual BSD/GPL";
