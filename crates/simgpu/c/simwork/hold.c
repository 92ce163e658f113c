// hold: launches inside which the thread is held up for one known reason and a known time.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../engine/clock.h"
#include "commands.h"
#include "gate.h"
#include "kernels.h"
#include "monitor.h"
#include "options.h"
#include "truth.h"

#define PAGE 4096
#define LARGE_PAGE (2 << 20)
#define READ_BYTES (64 << 10)

static const char *reason = "sleep", *path = "";
static uint64_t ms = 10, rounds = 20, megabytes = 64, cpu = ANY_CPU;
// The truth: inside the launch, from begin to end of what holds it up; and how long of that the thread was
// ready, but neighbours had the CPU, and how long it ran, by the kernel's own account.
static uint64_t held_ns, ready_ns, ran_ns;

static uint64_t clock_ns, delay_ns, cpu_ns; // when what holds it up began

static uint64_t delay_so_far(void) {
    static int schedstat = -1;
    if (schedstat < 0)
        schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    char text[64] = "";
    if (pread(schedstat, text, sizeof text - 1, 0) <= 0)
        return 0;
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) : 0;
}

static uint64_t ran_so_far(void) {
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
}

static void begin_held(void) {
    delay_ns = delay_so_far();
    cpu_ns = ran_so_far();
    clock_ns = now_ns();
}

static void end_held(void) {
    held_ns += now_ns() - clock_ns;
    ran_ns += ran_so_far() - cpu_ns;
    ready_ns += delay_so_far() - delay_ns;
}

// ---- a partner that does its part so long after it was asked to

static sem_t asked;
static void (*partner_does)(void);

static void *partner(void *arg) {
    prctl(PR_SET_NAME, "simwork-partner");
    for (;;) {
        while (sem_wait(&asked) != 0) {
        }
        sleep_ns(ms * 1000000);
        partner_does();
    }
    return arg;
}

static void start_partner(void (*does)(void)) {
    pthread_t thread;
    partner_does = does;
    sem_init(&asked, 0, 0);
    if (pthread_create(&thread, NULL, partner, NULL) != 0)
        options_refuse("hold: no thread could be started");
    pthread_detach(thread);
}

static void ask_partner(void) {
    sem_post(&asked);
}

static _Noreturn void cannot(const char *what) {
    options_refuse("hold: cannot %s: %s", what, strerror(errno));
}

// ---- the reasons: how to make ready, what is done before a launch, and what holds it up inside

static void do_nothing(void) {
}

static void do_sleep(void) {
    sleep_ns(ms * 1000000);
}

static void do_spin(void) {
    spin_ns(ms * 1000000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t taken;

static void *hold_mutex(void *arg) {
    prctl(PR_SET_NAME, "simwork-partner");
    for (;;) {
        while (sem_wait(&asked) != 0) {
        }
        pthread_mutex_lock(&mutex);
        sem_post(&taken);
        sleep_ns(ms * 1000000);
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

static void make_mutex(void) {
    pthread_t thread;
    sem_init(&asked, 0, 0);
    sem_init(&taken, 0, 0);
    if (pthread_create(&thread, NULL, hold_mutex, NULL) != 0)
        cannot("start a thread");
}

static void before_mutex(void) {
    ask_partner();
    while (sem_wait(&taken) != 0) {
    }
}

static void do_mutex(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static int own = -1, other = -1;

static void unlock_other(void) {
    flock(other, LOCK_UN);
}

static void make_flock(void) {
    own = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    other = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0 || other < 0)
        cannot("open the file to lock (--file)");
    start_partner(unlock_other);
}

static void before_flock(void) {
    flock(other, LOCK_EX);
    ask_partner();
}

static void do_flock(void) {
    flock(own, LOCK_EX);
    flock(own, LOCK_UN);
}

static void send_byte(void) {
    if (write(other, "x", 1) != 1)
        cannot("write to the partner's end");
}

// Both ends of a connection over the loopback.
static void make_socket(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0 ||
        connect(other, (struct sockaddr *)&address, length) != 0)
        cannot("connect over the loopback");
    own = accept(listener, NULL, NULL);
    start_partner(send_byte);
}

static void make_pipe(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        cannot("make a pipe");
    own = ends[0];
    other = ends[1];
    start_partner(send_byte);
}

static void do_receive(void) {
    char byte;
    while (recv(own, &byte, 1, 0) != 1) {
    }
}

static void do_read(void) {
    char byte;
    while (read(own, &byte, 1) != 1) {
    }
}

static void do_poll(void) {
    struct pollfd wait = {.fd = own, .events = POLLIN};
    while (poll(&wait, 1, -1) != 1) {
    }
}

static void after_poll(void) {
    do_read();
}

// Pages that are not there until the partner provides them.
static int faults = -1;
static char *pages;

static void provide_page(void) {
    static char zeros[PAGE] __attribute__((aligned(PAGE)));
    struct uffdio_copy copy = {.dst = (uintptr_t)pages, .src = (uintptr_t)zeros, .len = PAGE};
    if (ioctl(faults, UFFDIO_COPY, &copy) != 0)
        cannot("provide a page");
}

static void make_pages(void) {
    faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
        cannot("use userfaultfd");
    pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)pages, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (pages == MAP_FAILED || ioctl(faults, UFFDIO_REGISTER, &range) != 0)
        cannot("register a page");
    start_partner(provide_page);
}

static void before_page(void) {
    madvise(pages, PAGE, MADV_DONTNEED);
    ask_partner();
}

static void do_touch(void) {
    *(volatile char *)pages = 1;
}

// A driver that waits: it reads its argument from the page that is not there.
static void make_ioctl(void) {
    make_pages();
    own = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (own < 0)
        cannot("open a terminal");
}

static void do_ioctl(void) {
    ioctl(own, TIOCSWINSZ, pages);
}

// A driver whose ioctls take turns, see command_monitor.
static void make_driver(void) {
    own = monitor_open();
}

static void do_driver(void) {
    monitor_ask(own);
}

static void do_fresh(void) {
    uint64_t bytes = megabytes << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        cannot("map memory");
    // Large pages take so long that entering and leaving the kernel is nothing beside it.
    madvise(memory, bytes, MADV_HUGEPAGE);
    begin_held();
    // Once in each: touching all of a page that is there is time of the program, and no fault.
    for (uint64_t at = 0; at < bytes; at += LARGE_PAGE)
        ((volatile char *)memory)[at] = 1;
    end_held();
    munmap(memory, bytes);
}

static char *block;
static uint64_t file_bytes, offset;

static void make_file(void) {
    own = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (own < 0)
        cannot("open the file to read (--file)");
    file_bytes = lseek(own, 0, SEEK_END);
    if (file_bytes < READ_BYTES || posix_memalign((void **)&block, PAGE, READ_BYTES) != 0)
        options_refuse("hold: the file to read is too small");
}

static void do_pread(void) {
    if (pread(own, block, READ_BYTES, offset) != READ_BYTES)
        cannot("read the file");
    offset = (offset + READ_BYTES) % (file_bytes / READ_BYTES * READ_BYTES);
}

// Through the page cache, again and again: at the limit of a memory cgroup each read makes the kernel free
// some.
static void make_cached_file(void) {
    own = open(path, O_RDONLY | O_CLOEXEC);
    file_bytes = own < 0 ? 0 : lseek(own, 0, SEEK_END);
    // What is cached already is paid for by somebody else.
    posix_fadvise(own, 0, 0, POSIX_FADV_DONTNEED);
    if (own < 0 || file_bytes == 0)
        cannot("open the file to read (--file)");
}

static void do_reread(void) {
    static char room[1 << 20];
    for (uint64_t at = 0; at < file_bytes; at += sizeof room)
        if (pread(own, room, sizeof room, at) < 0)
            cannot("read the file");
}

static const struct {
    const char *name;
    void (*make)(void), (*before)(void), (*inside)(void), (*after)(void);
    bool own_clock; // begins and ends by itself
} reasons[] = {
    {"sleep", do_nothing, do_nothing, do_sleep, do_nothing, false},
    {"spin", do_nothing, do_nothing, do_spin, do_nothing, false},
    {"futex", make_mutex, before_mutex, do_mutex, do_nothing, false},
    {"flock", make_flock, before_flock, do_flock, do_nothing, false},
    {"socket", make_socket, ask_partner, do_receive, do_nothing, false},
    {"socket-read", make_socket, ask_partner, do_read, do_nothing, false},
    {"pipe", make_pipe, ask_partner, do_read, do_nothing, false},
    {"poll", make_pipe, ask_partner, do_poll, after_poll, false},
    {"fault", make_pages, before_page, do_touch, do_nothing, false},
    {"fresh", do_nothing, do_nothing, do_fresh, do_nothing, true},
    {"ioctl", make_ioctl, before_page, do_ioctl, do_nothing, false},
    {"driver", make_driver, do_nothing, do_driver, do_nothing, false},
    {"block", make_file, do_nothing, do_pread, do_nothing, false},
    {"reread", make_cached_file, do_nothing, do_reread, do_nothing, false},
};

static unsigned chosen;

static void inside_launch(void) {
    if (!reasons[chosen].own_clock)
        begin_held();
    reasons[chosen].inside();
    if (!reasons[chosen].own_clock)
        end_held();
}

static void choose(void) {
    for (chosen = 0; chosen < sizeof reasons / sizeof *reasons; chosen++)
        if (strcmp(reasons[chosen].name, reason) == 0)
            return;
    options_refuse("hold: no such reason: %s", reason);
}

int command_hold(char **arguments) {
    const struct option options[] = {
        TEXT("for", reason,
             "sleep, spin, futex, flock, socket, socket-read, pipe, poll, fault, fresh, ioctl, "
             "driver, block or reread"),
        NUMBER("ms", ms, "how long each launch is held up, where that can be chosen"),
        NUMBER("rounds", rounds, "launches; 0: until stopped"),
        NUMBER("megabytes", megabytes, "fresh: memory to touch in each launch"),
        TEXT("file", path, "flock, block, reread: the file"),
        NUMBER("cpu", cpu, "pin to this CPU"),
        END,
    };
    options_parse("hold", "launches that are held up inside for one known reason", arguments, options);
    choose();
    workload_pin(cpu);
    workload_begin();
    kernels_first_use(VIA_RUNTIME, KERNEL_MATMUL);
    reasons[chosen].make();
    delay_so_far(); // opened here, not inside the first launch
    simgpu_in_launch(inside_launch);
    uint64_t round = 0;
    for (; (rounds == 0 || round < rounds) && !gate_is_stopped(); round++) {
        reasons[chosen].before();
        kernels_launch(VIA_RUNTIME, KERNEL_MATMUL, NULL);
        reasons[chosen].after();
    }
    simgpu_in_launch(NULL);
    kernels_count(VIA_RUNTIME, round);
    fprintf(truth_more(),
            ",\"rounds\":%" PRIu64 ",\"held_ns\":%" PRIu64 ",\"ready_ns\":%" PRIu64 ",\"ran_ns\":%" PRIu64,
            round, held_ns, ready_ns, ran_ns);
    truth_print("hold");
    return 0;
}
