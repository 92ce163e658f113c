// The hash of a communicator, which all its ranks know and no two communicators share.
#pragma once

#include <string.h>

#include "nccl.h"

static inline uint64_t hash_mix(uint64_t hash, uint64_t word) {
    hash ^= word;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

// The same hash as tools that watch NCCL give to a unique id.
static inline uint64_t hash_of_id(const ncclUniqueId *id) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < sizeof id->internal; at += 8) {
        uint64_t word;
        memcpy(&word, id->internal + at, sizeof word);
        hash = hash_mix(hash, word);
    }
    return hash;
}

// Of the `split`th split (from 1) of a communicator. Tools that watch NCCL compute the same.
static inline uint64_t hash_of_split(uint64_t parent, uint64_t split, int color) {
    return hash_mix(hash_mix(parent, split), (uint64_t)(int64_t)color);
}

// The same of one that was shrunk: it has no colour, so it gets one that no split can have.
static inline uint64_t hash_of_shrink(uint64_t parent, uint64_t split) {
    return hash_mix(hash_mix(parent, split), 1ull << 32);
}
