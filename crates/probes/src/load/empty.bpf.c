// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that do nothing: they tell what the kernel can attach, and what a trap itself costs. */
#include "kernel.h"

SEC("uprobe.session")
int empty_session(void *ctx) {
    return 0;
}

SEC("uprobe.multi")
int empty_multi_enter(void *ctx) {
    return 0;
}

SEC("uretprobe.multi")
int empty_multi_return(void *ctx) {
    return 0;
}

SEC("uprobe")
int empty_single_enter(void *ctx) {
    return 0;
}

SEC("uretprobe")
int empty_single_return(void *ctx) {
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
