/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of a probe on library functions, in all flavours: one body for entry and one for return, which
 * the probe defines as PROBE_ENTER(ctx, cookie) and PROBE_RETURN(ctx) before it includes this. */
#pragma once

#include "kernel.h"

/* Newer kernels (7.2) hand it the context; libbpf binds the declaration that fits and leaves the other out.
 */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern bool bpf_session_is_return___alone(void) __ksym __weak;

static __always_inline bool is_return(void *ctx) {
    return bpf_ksym_exists(bpf_session_is_return) ? bpf_session_is_return(ctx)
                                                  : bpf_session_is_return___alone();
}

/* Programs on functions can be preempted, and since 6.13 their stack is one of the CPU: threads that share a
 * CPU would write into each other's. So they keep the CPU where the loader finds that they may (6.15: before,
 * no global function can be called then). */
const volatile bool keeps_cpu;

/* Before anything is on the stack, and after all. */
static __always_inline void keep_cpu(void) {
    if (keeps_cpu)
        bpf_preempt_disable();
}

static __always_inline void give_cpu(void) {
    if (keeps_cpu)
        bpf_preempt_enable();
}

SEC("uprobe.session")
int call_session(struct pt_regs *ctx) {
    bool followed = true;
    keep_cpu();
    if (is_return(ctx))
        PROBE_RETURN(ctx);
    else
        followed = PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx));
    give_cpu();
    /* 1 spares the return trap. */
    return followed ? 0 : 1;
}

SEC("uprobe.multi")
int call_multi_enter(struct pt_regs *ctx) {
    keep_cpu();
    PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx));
    give_cpu();
    return 0;
}

SEC("uretprobe.multi")
int call_multi_return(struct pt_regs *ctx) {
    keep_cpu();
    PROBE_RETURN(ctx);
    give_cpu();
    return 0;
}

SEC("uprobe")
int call_single_enter(struct pt_regs *ctx) {
    keep_cpu();
    PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx));
    give_cpu();
    return 0;
}

SEC("uretprobe")
int call_single_return(struct pt_regs *ctx) {
    keep_cpu();
    PROBE_RETURN(ctx);
    give_cpu();
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
