// Memory of the stand-in GPU.
#define _GNU_SOURCE
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "clock.h"
#include "control.h"
#include "table.h"

#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define ALREADY_REGISTERED 712
#define NOT_REGISTERED 713

#define FIRST_ADDRESS 0x7f0000000000u
#define GRANULE 512u
#define PAGE 4096u
#define RESERVATION (64ull << 30)
#define MANAGED (1ull << 63) // set in the recorded size of managed memory

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table allocations; // address -> bytes
static struct table host_allocations;
static struct table registrations; // host memory that is the program's -> bytes
static uint64_t used_bytes;
static uint64_t next_address = FIRST_ADDRESS;
static uint64_t reserved_until = FIRST_ADDRESS;

void pool_lock(void) {
    pthread_mutex_lock(&lock);
}

void pool_unlock(void) {
    pthread_mutex_unlock(&lock);
}

static uint64_t round_up(uint64_t bytes, uint64_t granule) {
    return (bytes + granule - 1) / granule * granule;
}

// Takes addresses out of a range kept from the host, so that a device address never equals a host one. Memory
// there cannot be touched: using a device pointer on the host faults, as it does with a real device.
uint64_t pool_take_addresses(uint64_t bytes, uint64_t granule) {
    next_address = round_up(next_address, granule);
    while (next_address + bytes > reserved_until) {
        uint64_t length = round_up(bytes, RESERVATION);
        void *range = mmap((void *)reserved_until, length, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (range == MAP_FAILED && errno == EEXIST)
            next_address = reserved_until + length; // somebody lives here: go past it
        reserved_until += length;
    }
    uint64_t address = next_address;
    next_address += bytes;
    return address;
}

int pool_take_bytes(uint64_t bytes) {
    static uint64_t allocation_count;
    uint64_t fail_every = CONTROL(malloc_fail_every);
    allocation_count++;
    if (fail_every && allocation_count % fail_every == 0)
        return OUT_OF_MEMORY;
    uint64_t total = CONTROL(memory);
    if (bytes > total || used_bytes > total - bytes)
        return OUT_OF_MEMORY;
    used_bytes += bytes;
    return 0;
}

void pool_give_bytes(uint64_t bytes) {
    used_bytes -= bytes;
}

void pool_delay(void) {
    uint64_t spin = CONTROL(alloc_spin_ns), sleep = CONTROL(alloc_sleep_ns);
    if (spin)
        spin_ns(spin);
    if (sleep)
        sleep_ns(sleep);
}

static int alloc(uint64_t bytes, uint64_t granule, uint64_t mark, uint64_t *address) {
    if (!address || !bytes)
        return INVALID_VALUE;
    if (bytes > CONTROL(memory))
        return OUT_OF_MEMORY;
    pool_delay();
    bytes = round_up(bytes, granule);
    pthread_mutex_lock(&lock);
    int result = pool_take_bytes(bytes);
    if (result == 0) {
        *address = pool_take_addresses(bytes, granule);
        if (!table_put(&allocations, *address, bytes | mark))
            result = OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int pool_alloc(uint64_t bytes, uint64_t *address) {
    return alloc(bytes, GRANULE, 0, address);
}

int pool_alloc_managed(uint64_t bytes, uint64_t *address) {
    int result = alloc(bytes, PAGE, MANAGED, address);
    if (result == 0)
        mprotect((void *)*address, round_up(bytes, PAGE), PROT_READ | PROT_WRITE);
    return result;
}

int pool_free(uint64_t address) {
    uint64_t bytes;
    pthread_mutex_lock(&lock);
    bool known = table_take(&allocations, address, &bytes);
    if (known)
        used_bytes -= bytes & ~MANAGED;
    pthread_mutex_unlock(&lock);
    if (known && bytes & MANAGED) {
        madvise((void *)address, bytes & ~MANAGED, MADV_DONTNEED);
        mprotect((void *)address, bytes & ~MANAGED, PROT_NONE);
    }
    return known ? 0 : INVALID_VALUE;
}

bool pool_owns(uint64_t address) {
    return address >= FIRST_ADDRESS && address < __atomic_load_n(&next_address, __ATOMIC_RELAXED);
}

void pool_usage(uint64_t *free_bytes, uint64_t *total_bytes) {
    pthread_mutex_lock(&lock);
    *total_bytes = CONTROL(memory);
    *free_bytes = *total_bytes > used_bytes ? *total_bytes - used_bytes : 0;
    pthread_mutex_unlock(&lock);
}

int pool_alloc_host(uint64_t bytes, void **pointer) {
    if (!pointer || !bytes)
        return INVALID_VALUE;
    pool_delay();
    *pointer = aligned_alloc(PAGE, round_up(bytes, PAGE));
    if (!*pointer)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    table_put(&host_allocations, (uint64_t)*pointer, bytes);
    pthread_mutex_unlock(&lock);
    return 0;
}

int pool_free_host(void *pointer) {
    pthread_mutex_lock(&lock);
    bool known = table_take(&host_allocations, (uint64_t)pointer, NULL);
    pthread_mutex_unlock(&lock);
    if (!known)
        return INVALID_VALUE;
    free(pointer);
    return 0;
}

int pool_register(void *pointer, uint64_t bytes) {
    if (!pointer || !bytes)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    bool known = table_get(&registrations, (uint64_t)pointer) != NULL;
    if (!known)
        table_put(&registrations, (uint64_t)pointer, bytes);
    pthread_mutex_unlock(&lock);
    return known ? ALREADY_REGISTERED : 0;
}

int pool_unregister(void *pointer) {
    pthread_mutex_lock(&lock);
    bool known = table_take(&registrations, (uint64_t)pointer, NULL);
    pthread_mutex_unlock(&lock);
    return known ? 0 : NOT_REGISTERED;
}

void pool_before_fork(void) {
    pthread_mutex_lock(&lock);
}

void pool_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

void pool_in_child(void) {
    pthread_mutex_init(&lock, NULL);
}
