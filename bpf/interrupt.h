/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a CPU serves an interrupt: whoever is current then is a bystander. */
#pragma once

#include "kernel.h"

struct interrupts {
    u64 since_ns; /* of the outermost */
    u32 depth;
    u32 number; /* a softirq's, or SOFTIRQS plus an interrupt's */
    u32 timers; /* a bit for each depth at which a timer's is served */
    u32 reserved;
    char name[COMM_LEN];
};

#define SOFTIRQS 16
#define TIMER_INTERRUPT (SOFTIRQS - 1)
/* In the kernel's order. */
#define SOFTIRQ_TIMER 1
#define SOFTIRQ_HRTIMER 8

/* Written by the irq probe alone. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct interrupts);
} interrupts SEC(".maps");

static __always_inline struct interrupts *interrupts_here(void) {
    u32 zero = 0;
    return bpf_map_lookup_elem(&interrupts, &zero);
}

static __always_inline bool in_interrupt(void) {
    struct interrupts *here = interrupts_here();
    return here && here->depth;
}

/* Whether interrupts of this CPU are seen at all: the irq probe may be off. */
static __always_inline bool sees_interrupts(void) {
    struct interrupts *here = interrupts_here();
    return here && here->since_ns;
}

/* Whether timers that ran out are served just now: by the innermost interrupt, which is the one that acts. */
static __always_inline bool in_timer(void) {
    struct interrupts *here = interrupts_here();
    return here && here->depth && (here->timers >> (here->depth & 31) & 1);
}
