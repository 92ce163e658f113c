// Memory of the stand-in GPU: a finite pool of bytes, and addresses that are never used twice and never host
// memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Results are the driver's error codes.
int pool_alloc(uint64_t bytes, uint64_t *address);
// Memory that the host may touch too, at the same address.
int pool_alloc_managed(uint64_t bytes, uint64_t *address);
int pool_free(uint64_t address);
bool pool_owns(uint64_t address);
void pool_usage(uint64_t *free_bytes, uint64_t *total_bytes);

int pool_alloc_host(uint64_t bytes, void **pointer);
int pool_free_host(void *pointer);

// Host memory that the program allocated itself, and made known to the device.
int pool_register(void *pointer, uint64_t bytes);
int pool_unregister(void *pointer);

// For other parts of the memory, which share the lock. Delaying happens without it, all else with it.
void pool_lock(void);
void pool_unlock(void);
void pool_delay(void);
int pool_take_bytes(uint64_t bytes);
void pool_give_bytes(uint64_t bytes);
uint64_t pool_take_addresses(uint64_t bytes, uint64_t granule);

void pool_before_fork(void);
void pool_in_parent(void);
void pool_in_child(void);
