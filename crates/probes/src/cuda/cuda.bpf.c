// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CUDA calls. Which function was entered is told by the attach cookie, the number of its rule; how to
 * read its arguments stands there, so every function shares these programs. */
#include "call.h"

extern bool bpf_session_is_return(void) __ksym __weak;

SEC("uprobe.session")
int call_session(struct pt_regs *ctx) {
    if (bpf_session_is_return()) {
        call_return(ctx);
        return 0;
    }
    /* 1 spares the return trap. */
    return call_enter(ctx, bpf_get_attach_cookie(ctx)) ? 0 : 1;
}

SEC("uprobe.multi")
int call_multi_enter(struct pt_regs *ctx) {
    call_enter(ctx, bpf_get_attach_cookie(ctx));
    return 0;
}

SEC("uretprobe.multi")
int call_multi_return(struct pt_regs *ctx) {
    call_return(ctx);
    return 0;
}

SEC("uprobe")
int call_single_enter(struct pt_regs *ctx) {
    call_enter(ctx, bpf_get_attach_cookie(ctx));
    return 0;
}

SEC("uretprobe")
int call_single_return(struct pt_regs *ctx) {
    call_return(ctx);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
