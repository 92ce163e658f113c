// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Time that interrupts and softirqs took from followed threads while these were on the CPU. */
#include "bill.h"
#include "interrupt.h"

/* An interrupt within a softirq, or the other way round, is part of the outer one. */
static __always_inline struct interrupts *enter(u32 number, bool timer) {
    struct interrupts *here = interrupts_here();
    if (!here)
        return 0;
    u32 bit = 1U << ((here->depth + 1) & 31);
    here->timers = timer ? here->timers | bit : here->timers & ~bit;
    if (here->depth++)
        return 0;
    here->since_ns = bpf_ktime_get_ns();
    here->number = number;
    return here;
}

static __always_inline void leave(void) {
    struct interrupts *here = interrupts_here();
    /* One that had begun before the probe was there. */
    if (!here || !here->depth || --here->depth)
        return;
    struct task_struct *current = bpf_get_current_task_btf();
    struct task *task = bpf_task_storage_get(&tasks, current, 0, 0);
    if (!task)
        return;
    u64 now = bpf_ktime_get_ns();
    struct who by = {.tid = here->number + 1};
    __builtin_memcpy(by.comm, here->name, COMM_LEN);
    bill_current(current, task, REASON_INTERRUPT, &by, now, now - here->since_ns);
}

/* Programs are attached in this order. The ends first: a beginning whose end is missed would count as going
 * on for ever. */
SEC("tp_btf/irq_handler_exit")
int on_irq_end(void *ctx) {
    leave();
    return 0;
}

SEC("tp_btf/local_timer_exit")
int on_timer_end(void *ctx) {
    leave();
    return 0;
}

SEC("tp_btf/softirq_exit")
int on_softirq_end(void *ctx) {
    leave();
    return 0;
}

static __always_inline bool begins_with(const char *name, const char *text, u32 length) {
    for (u32 i = 0; i < length; i++)
        if (name[i] != text[i])
            return false;
    return true;
}

/* Where the timer is a device with a handler: arch_timer on arm64, the PIT and the HPET on x86. */
static __always_inline bool is_timer(const char *name) {
    return begins_with(name, "arch_timer", 10) || begins_with(name, "timer", 6) ||
           begins_with(name, "hpet", 4);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq, int irq, struct irqaction *action) {
    char name[COMM_LEN] = {};
    if (bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(action, name)) < 0)
        name[0] = 0;
    struct interrupts *here = enter(SOFTIRQS + irq, is_timer(name));
    if (here)
        __builtin_memcpy(here->name, name, COMM_LEN);
    return 0;
}

/* The timer's own interrupt has no handler. */
SEC("tp_btf/local_timer_entry")
int on_timer(void *ctx) {
    struct interrupts *here = enter(TIMER_INTERRUPT, true);
    if (here)
        here->name[0] = 0;
    return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector) {
    bool timer = vector == SOFTIRQ_TIMER || vector == SOFTIRQ_HRTIMER;
    struct interrupts *here = enter(vector < SOFTIRQS ? vector : SOFTIRQS - 1, timer);
    if (here)
        here->name[0] = 0; /* user space knows their names */
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
