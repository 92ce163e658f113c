// The board: shared memory through which ranks meet.
#define _GNU_SOURCE
#include "board.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../engine/clock.h"

// How often a waiting rank looks whether its communicator was aborted.
#define ABORT_POLL_NS 100000000

// With one stream nobody reaches collective n + 2 before all have left n. More streams have more under way.
#define COLLECTIVES_UNDER_WAY 64

struct seat {
    _Atomic uint64_t meeting; // number of the last meeting that the rank came to
    // By number, modulo.
    struct arrival {
        _Atomic uint64_t seq;
        struct offer offer;
    } arrivals[COLLECTIVES_UNDER_WAY];
};

struct board {
    int nranks;
    _Atomic uint32_t news; // futex word: changes whenever a rank does something
    struct seat seats[BOARD_MAX_RANKS];
    struct wish wishes[BOARD_MAX_RANKS];
    struct {
        _Atomic uint32_t sent, received, signals;
    } pairs[]; // nranks * nranks, by sender
};

static size_t board_bytes(int nranks) {
    return sizeof(struct board) + (size_t)nranks * (size_t)nranks * sizeof(uint32_t[3]);
}

static void board_name(char name[64], uint64_t hash) {
    snprintf(name, 64, "/simgpu-nccl-%016" PRIx64, hash);
}

struct board *board_open(uint64_t hash, int nranks) {
    char name[64];
    board_name(name, hash);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct board *board = MAP_FAILED;
    if (ftruncate(fd, (off_t)board_bytes(nranks)) == 0)
        board = mmap(NULL, board_bytes(nranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (board == MAP_FAILED)
        return NULL;
    board->nranks = nranks;
    return board;
}

void board_close(struct board *board) {
    munmap(board, board_bytes(board->nranks));
}

void board_forget_name(uint64_t hash) {
    char name[64];
    board_name(name, hash);
    shm_unlink(name);
}

static void announce(struct board *board) {
    board->news++;
    futex_wake_all(&board->news);
}

typedef bool (*condition)(struct board *board, int rank, int peer, uint64_t seq);

static bool await(struct board *board, condition holds, int rank, int peer, uint64_t seq,
                  const _Atomic bool *aborted) {
    for (;;) {
        uint32_t seen = board->news;
        if (holds(board, rank, peer, seq))
            return true;
        if (*aborted)
            return false;
        futex_wait(&board->news, seen, now_ns() + ABORT_POLL_NS);
    }
}

static bool all_met(struct board *board, int rank, int peer, uint64_t seq) {
    (void)rank, (void)peer;
    for (int other = 0; other < board->nranks; other++)
        if (board->seats[other].meeting < seq)
            return false;
    return true;
}

bool board_meet(struct board *board, int rank, const _Atomic bool *aborted) {
    uint64_t seq = ++board->seats[rank].meeting;
    announce(board);
    return await(board, all_met, rank, 0, seq, aborted);
}

void board_arrive(struct board *board, int rank, uint64_t seq, struct offer offer) {
    struct arrival *arrival = &board->seats[rank].arrivals[seq % COLLECTIVES_UNDER_WAY];
    arrival->offer = offer;
    arrival->seq = seq;
    announce(board);
}

static bool all_arrived(struct board *board, int rank, int peer, uint64_t seq) {
    (void)peer;
    size_t at = seq % COLLECTIVES_UNDER_WAY;
    const struct offer *own = &board->seats[rank].arrivals[at].offer;
    for (int other = 0; other < board->nranks; other++) {
        const struct arrival *arrival = &board->seats[other].arrivals[at];
        // A rank that is a whole turn ahead has left this one long ago.
        if (arrival->seq < seq || (arrival->seq == seq && memcmp(&arrival->offer, own, sizeof *own) != 0))
            return false;
    }
    return true;
}

bool board_await_all(struct board *board, int rank, uint64_t seq, const _Atomic bool *aborted) {
    return await(board, all_arrived, rank, 0, seq, aborted);
}

void board_post_send(struct board *board, int from, int to) {
    board->pairs[from * board->nranks + to].sent++;
    announce(board);
}

void board_post_receive(struct board *board, int from, int to) {
    board->pairs[from * board->nranks + to].received++;
    announce(board);
}

static bool both_sides(struct board *board, int from, int to, uint64_t seq) {
    return board->pairs[from * board->nranks + to].sent >= seq &&
           board->pairs[from * board->nranks + to].received >= seq;
}

bool board_await_pair(struct board *board, int from, int to, uint32_t seq, const _Atomic bool *aborted) {
    return await(board, both_sides, from, to, seq, aborted);
}

void board_post_signal(struct board *board, int from, int to) {
    board->pairs[from * board->nranks + to].signals++;
    announce(board);
}

static bool enough_signals(struct board *board, int from, int to, uint64_t count) {
    return board->pairs[from * board->nranks + to].signals >= count;
}

bool board_await_signals(struct board *board, int from, int to, uint32_t count, const _Atomic bool *aborted) {
    return await(board, enough_signals, from, to, count, aborted);
}

struct wish *board_wishes(struct board *board) {
    return board->wishes;
}
