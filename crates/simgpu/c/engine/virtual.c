// Virtual memory management.
#include "virtual.h"

#include <stdlib.h>

#include "pool.h"
#include "table.h"

#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define PAGE 4096u

struct physical {
    uint64_t bytes;
    unsigned handles, mappings; // how often it is held
};

static struct table ranges;    // reserved address -> bytes
static struct table physicals; // handle -> struct physical *
static struct table mappings;  // mapped address -> handle
static uint64_t next_handle = 0x1000;

int virtual_reserve(uint64_t bytes, uint64_t *address) {
    if (!address || !bytes)
        return INVALID_VALUE;
    pool_lock();
    *address = pool_take_addresses((bytes + PAGE - 1) / PAGE * PAGE, PAGE);
    table_put(&ranges, *address, bytes);
    pool_unlock();
    return 0;
}

int virtual_unreserve(uint64_t address) {
    pool_lock();
    bool known = table_take(&ranges, address, NULL);
    pool_unlock();
    return known ? 0 : INVALID_VALUE;
}

static struct physical *physical_of(uint64_t handle) {
    uint64_t *found = table_get(&physicals, handle);
    return found ? (struct physical *)*found : NULL;
}

// Called with the lock held, after somebody let go.
static void free_unheld(uint64_t handle, struct physical *physical) {
    if (physical->handles || physical->mappings)
        return;
    pool_give_bytes(physical->bytes);
    table_take(&physicals, handle, NULL);
    free(physical);
}

int virtual_create(uint64_t bytes, uint64_t *handle) {
    if (!handle || !bytes)
        return INVALID_VALUE;
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return OUT_OF_MEMORY;
    *physical = (struct physical){.bytes = bytes, .handles = 1};
    pool_delay();
    pool_lock();
    int result = pool_take_bytes(bytes);
    if (result == 0) {
        *handle = next_handle++;
        table_put(&physicals, *handle, (uint64_t)physical);
    }
    pool_unlock();
    if (result != 0)
        free(physical);
    return result;
}

int virtual_map(uint64_t address, uint64_t bytes, uint64_t handle) {
    pool_lock();
    struct physical *physical = physical_of(handle);
    // A handle that was released is no handle any more, though its memory may still be mapped.
    bool fits = physical && physical->handles && bytes <= physical->bytes && !table_get(&mappings, address);
    if (fits) {
        physical->mappings++;
        table_put(&mappings, address, handle);
    }
    pool_unlock();
    return fits ? 0 : INVALID_VALUE;
}

int virtual_unmap(uint64_t address) {
    uint64_t handle;
    pool_lock();
    bool known = table_take(&mappings, address, &handle);
    if (known) {
        struct physical *physical = physical_of(handle);
        physical->mappings--;
        free_unheld(handle, physical);
    }
    pool_unlock();
    return known ? 0 : INVALID_VALUE;
}

int virtual_release(uint64_t handle) {
    pool_lock();
    struct physical *physical = physical_of(handle);
    bool held = physical && physical->handles;
    if (held) {
        physical->handles--;
        free_unheld(handle, physical);
    }
    pool_unlock();
    return held ? 0 : INVALID_VALUE;
}

int virtual_retain(uint64_t address, uint64_t *handle) {
    int result = INVALID_VALUE;
    pool_lock();
    for (size_t at = 0; handle && at < mappings.capacity; at++) {
        const struct slot *mapping = &mappings.slots[at];
        struct physical *physical = mapping->key ? physical_of(mapping->value) : NULL;
        if (!physical || address < mapping->key || address >= mapping->key + physical->bytes)
            continue;
        *handle = mapping->value;
        physical->handles++;
        result = 0;
        break;
    }
    pool_unlock();
    return result;
}
