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

// Virtual memory management: ranges of addresses and physical memory, apart.
int pool_reserve(uint64_t bytes, uint64_t *address);
int pool_unreserve(uint64_t address);
int pool_create(uint64_t bytes, uint64_t *handle);
int pool_map(uint64_t address, uint64_t bytes, uint64_t handle);
int pool_unmap(uint64_t address);
int pool_release(uint64_t handle);

void pool_before_fork(void);
void pool_in_parent(void);
void pool_in_child(void);
