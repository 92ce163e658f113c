// Faults injected into calls.
#define _GNU_SOURCE
#include "fault.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"

#define LAUNCH_FAILED 719

// ---- a mutex that a sibling thread keeps

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t holder_lock = PTHREAD_MUTEX_INITIALIZER; // guards the existence of the holder
static bool holder_runs;
static _Atomic uint32_t is_held; // futex word
static _Atomic uint32_t passed;  // futex word: launches that got the mutex

// How long the holder leaves the mutex alone when no launch comes for it.
#define HOLDER_PATIENCE_NS 1000000

static void *hold_again_and_again(void *arg) {
    prctl(PR_SET_NAME, "simgpu-holder");
    for (;;) {
        uint64_t hold_ns = CONTROL(lock_hold_ns);
        pthread_mutex_lock(&holder_lock);
        if (!hold_ns) {
            holder_runs = false;
            pthread_mutex_unlock(&holder_lock);
            return arg;
        }
        pthread_mutex_unlock(&holder_lock);
        uint32_t seen = passed;
        pthread_mutex_lock(&contended);
        is_held = 1;
        futex_wake_all(&is_held);
        sleep_ns(hold_ns);
        is_held = 0;
        pthread_mutex_unlock(&contended);
        // Without a pause the holder would take the mutex back before the woken launch runs.
        if (passed == seen)
            futex_wait(&passed, seen, now_ns() + HOLDER_PATIENCE_NS);
    }
}

static void ensure_holder(void) {
    pthread_mutex_lock(&holder_lock);
    if (!holder_runs) {
        sigset_t every_signal, before;
        sigfillset(&every_signal);
        pthread_sigmask(SIG_SETMASK, &every_signal, &before);
        pthread_t thread;
        holder_runs = pthread_create(&thread, NULL, hold_again_and_again, NULL) == 0;
        if (holder_runs)
            pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_mutex_unlock(&holder_lock);
}

static void take_contended_lock(void) {
    ensure_holder();
    pthread_mutex_lock(&contended);
    passed++;
    pthread_mutex_unlock(&contended);
    futex_wake_all(&passed);
}

void fault_await_held_lock(void) {
    ensure_holder();
    while (!is_held && CONTROL(lock_hold_ns))
        futex_wait(&is_held, 0, now_ns() + HOLDER_PATIENCE_NS);
}

// ---- launches

static void touch_fresh_memory(uint64_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return;
    for (uint64_t at = 0; at < bytes; at += 4096)
        ((volatile char *)memory)[at] = 1;
    munmap(memory, bytes);
}

static bool every_nth(_Atomic uint64_t *count, uint64_t n) {
    return n && ++*count % n == 0;
}

static void die(void) {
    if (syscall(SYS_gettid) == getpid())
        _exit(0);
    pthread_exit(NULL);
}

static void burn_cold_start(void) {
    static _Atomic bool warm;
    if (!warm && !__atomic_exchange_n((bool *)&warm, true, __ATOMIC_RELAXED) && CONTROL(cold_us))
        spin_ns(CONTROL(cold_us) * 1000);
}

static void (*_Atomic inside)(void);

void fault_run_in_launch(void (*run)(void)) {
    inside = run;
}

int fault_launch(void) {
    static _Atomic uint64_t launches_to_fail, launches_to_die;
    burn_cold_start();
    uint64_t spin = CONTROL(launch_spin_ns), sleep = CONTROL(launch_sleep_ns), touch = CONTROL(fault_bytes);
    if (__builtin_expect(spin != 0, 0))
        spin_ns(spin);
    if (__builtin_expect(sleep != 0, 0))
        sleep_ns(sleep);
    if (__builtin_expect(touch != 0, 0))
        touch_fresh_memory(touch);
    if (__builtin_expect(CONTROL(lock_hold_ns) != 0, 0))
        take_contended_lock();
    void (*run)(void) = inside;
    if (__builtin_expect(run != NULL, 0))
        run();
    uint64_t die_at = CONTROL(die_in_launch);
    if (__builtin_expect(die_at != 0, 0) && ++launches_to_die == die_at)
        die();
    return every_nth(&launches_to_fail, CONTROL(fail_every)) ? LAUNCH_FAILED : 0;
}

void fault_copy(void) {
    uint64_t sleep = CONTROL(copy_sleep_ns);
    if (sleep)
        sleep_ns(sleep);
}

void fault_sync(void) {
    uint64_t sleep = CONTROL(sync_sleep_ns);
    if (sleep)
        sleep_ns(sleep);
}

void fault_in_child(void) {
    pthread_mutex_init(&contended, NULL);
    pthread_mutex_init(&holder_lock, NULL);
    holder_runs = false;
    is_held = 0;
}
