// die: threads and processes that end inside a call, or take another shape while one is under way.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "kernels.h"
#include "options.h"
#include "truth.h"

static const char *how = "thread";
static uint64_t launches = 10;

#define LONG_NS 3600000000000u

static void launch(uint64_t count) {
    for (uint64_t at = 0; at < count; at++)
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
    kernels_count(VIA_RUNTIME, count);
}

// The last of `launches` + 1 launches never returns.
static void launch_until_death(void) {
    simgpu_set("die_in_launch", launches + 1);
    launch(launches);
    truth_add_unfinished(OP_cuLaunchKernel);
    kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
}

static void *die_here(void *arg) {
    launch_until_death();
    return arg;
}

static void thread_dies(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, die_here, NULL);
    pthread_join(thread, NULL);
    simgpu_set("die_in_launch", 0);
    launch(launches);
}

static void await_child(pid_t child) {
    truth_child(child);
    waitpid(child, NULL, 0);
}

static void process_dies(void) {
    pid_t child = fork();
    if (child == 0) {
        truth_in_child();
        launch_until_death();
        abort();
    }
    await_child(child);
    launch(launches);
}

// A thread that sleeps inside a launch. Its state tells when it got there.
static _Atomic int sleeper_tid;

static void *sleep_in_launch(void *arg) {
    truth_add_unfinished(OP_cuLaunchKernel);
    sleeper_tid = gettid();
    kernels_launch(VIA_RUNTIME, KERNEL_SOFTMAX, NULL);
    return arg;
}

// Waits until thread `tid` of `pid` sleeps: only the launch makes it sleep.
static void await_sleep(int pid, int tid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        if (file)
            fclose(file);
        sleep_ns(1000000);
    }
}

static void start_sleeper(void) {
    pthread_t thread;
    kernels_first_use(VIA_RUNTIME, KERNEL_SOFTMAX);
    simgpu_set("launch_sleep_ns", LONG_NS);
    pthread_create(&thread, NULL, sleep_in_launch, NULL);
    while (!sleeper_tid)
        sleep_ns(100000);
    await_sleep(getpid(), sleeper_tid);
    simgpu_set("launch_sleep_ns", 0);
}

// Replaces the process by a workload of another name; what happened before reaches its output as "earlier".
static void process_execs(void) {
    launch(launches);
    start_sleeper();
    setenv("SIMWORK_EARLIER", truth_so_far(), 1);
    char count[32];
    snprintf(count, sizeof count, "%llu", (unsigned long long)launches);
    execl("/proc/self/exe", "simwork", "launch", "--launches", count, NULL);
    options_refuse("cannot start simwork again");
}

// The child goes on with calls while a thread of the parent is inside one.
static void process_forks(void) {
    launch(launches);
    start_sleeper();
    pid_t child = fork();
    if (child == 0) {
        truth_in_child();
        launch(launches * 2);
        CALL(cudaDeviceSynchronize);
        void *pointer;
        CALL(cudaMalloc, &pointer, 4096);
        CALL(cudaFree, pointer);
        _exit(0);
    }
    await_child(child);
    launch(launches);
}

static void process_is_killed(void) {
    pid_t child = fork();
    if (child == 0) {
        truth_in_child();
        launch(launches);
        truth_add_unfinished(OP_cuLaunchKernel);
        simgpu_set("launch_sleep_ns", LONG_NS);
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
        abort();
    }
    await_sleep(child, child);
    kill(child, SIGKILL);
    await_child(child);
    launch(launches);
}

int command_die(char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"thread", thread_dies}, {"process", process_dies},   {"exec", process_execs},
        {"fork", process_forks}, {"kill", process_is_killed},
    };
    const struct option options[] = {
        TEXT("how", how, "thread, process, exec, fork or kill"),
        NUMBER("launches", launches, "launches before and after"),
        END,
    };
    options_parse("die", "threads and processes that end inside a call", arguments, options);
    void (*run)(void) = NULL;
    for (size_t at = 0; at < sizeof ways / sizeof *ways; at++)
        if (strcmp(ways[at].name, how) == 0)
            run = ways[at].run;
    if (!run)
        options_refuse("--how is thread, process, exec, fork or kill, not \"%s\"", how);
    workload_begin();
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    // Loaded before any fork, so that the children have nothing left to load.
    launch(1);
    run();
    truth_print("die");
    return 0;
}
