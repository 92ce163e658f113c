/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs of a probe on library functions, in all flavours: one body for entry and one for return, which
 * the probe defines as PROBE_ENTER(ctx, cookie) and PROBE_RETURN(ctx) before it includes this. */
#pragma once

#include "kernel.h"

/* Newer kernels (7.2) hand it the context; libbpf binds the declaration that fits and leaves the other out. */
extern bool bpf_session_is_return(void *ctx) __ksym __weak;
extern bool bpf_session_is_return___alone(void) __ksym __weak;

static __always_inline bool is_return(void *ctx) {
    return bpf_ksym_exists(bpf_session_is_return) ? bpf_session_is_return(ctx)
                                                  : bpf_session_is_return___alone();
}

SEC("uprobe.session")
int call_session(struct pt_regs *ctx) {
    if (is_return(ctx)) {
        PROBE_RETURN(ctx);
        return 0;
    }
    /* 1 spares the return trap. */
    return PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx)) ? 0 : 1;
}

SEC("uprobe.multi")
int call_multi_enter(struct pt_regs *ctx) {
    PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx));
    return 0;
}

SEC("uretprobe.multi")
int call_multi_return(struct pt_regs *ctx) {
    PROBE_RETURN(ctx);
    return 0;
}

SEC("uprobe")
int call_single_enter(struct pt_regs *ctx) {
    PROBE_ENTER(ctx, bpf_get_attach_cookie(ctx));
    return 0;
}

SEC("uretprobe")
int call_single_return(struct pt_regs *ctx) {
    PROBE_RETURN(ctx);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
