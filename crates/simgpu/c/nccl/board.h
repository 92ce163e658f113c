// The board: shared memory through which the ranks of one communicator meet, in one process or in several.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BOARD_MAX_RANKS 1024

struct board;

// What a rank brings to a collective: all ranks must bring the same.
struct offer {
    uint32_t operation;
    uint32_t type;
    uint64_t count;
};

// Opens the board called after `hash`, which all ranks of the communicator know. NULL on failure.
struct board *board_open(uint64_t hash, int nranks);
void board_close(struct board *board);
// The name is needed only until every rank has opened the board.
void board_forget_name(uint64_t hash);

// Blocks until all ranks are here; returns false when `aborted` became true.
bool board_meet(struct board *board, int rank, const _Atomic bool *aborted);

// Collectives: announce the arrival of `rank` at its collective number `seq` (from 1, in order), then wait
// for everybody. Ranks that offer different things never leave, as with the real library.
void board_arrive(struct board *board, int rank, uint64_t seq, struct offer offer);
bool board_await_all(struct board *board, int rank, uint64_t seq, const _Atomic bool *aborted);

// Point to point: the `seq`th message from one rank to another needs both sides.
void board_post_send(struct board *board, int from, int to);
void board_post_receive(struct board *board, int from, int to);
bool board_await_pair(struct board *board, int from, int to, uint32_t seq, const _Atomic bool *aborted);

// Signals: only who gets them waits, for as many as all its waits so far have asked for.
void board_post_signal(struct board *board, int from, int to);
bool board_await_signals(struct board *board, int from, int to, uint32_t count, const _Atomic bool *aborted);

// Splitting: what each rank asked for, valid between two meetings.
struct wish {
    int color;
    int key;
};
struct wish *board_wishes(struct board *board);
