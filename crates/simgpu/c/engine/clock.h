// Time and waiting: the monotonic clock, sleeping to a deadline, burning CPU on purpose, and futexes.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NEVER UINT64_MAX

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline struct timespec timespec_of_ns(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static inline void sleep_until_ns(uint64_t deadline_ns) {
    struct timespec deadline = timespec_of_ns(deadline_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR) {
    }
}

static inline void sleep_ns(uint64_t ns) {
    sleep_until_ns(now_ns() + ns);
}

static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void spin_ns(uint64_t ns) {
    uint64_t end_ns = now_ns() + ns;
    while (now_ns() < end_ns)
        cpu_relax();
}

// Waits while *word is `seen`, until `deadline_ns` of the monotonic clock (NEVER: without a limit).
// Not FUTEX_PRIVATE, because the words of communicators and control pages are shared between processes.
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns) {
    struct timespec deadline = timespec_of_ns(deadline_ns);
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline_ns == NEVER ? NULL : &deadline, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static inline void futex_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
