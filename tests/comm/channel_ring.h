// Ranks in a ring, and in a chain, that send each other messages over channels, for tests on
// threads, processes and MPI.
#ifndef TESTS_COMM_CHANNEL_RING_H
#define TESTS_COMM_CHANNEL_RING_H

#include "comm/channel.h"
#include "comm/communicator.h"

// Sends random messages, the same on all ranks, around a ring of the ranks in both directions, over
// channels of several slots and sizes. Receivers check what has come, write over it, release it at
// moments of their own choice, and check before that nobody else has written there. comm has at
// least 2 ranks.
zero_status exchange_in_ring(zero_comm *comm, uint64_t seed, zero_error *error);
// The same at once in a job of GRID_RANKS ranks, twice there, and in its data and tensor groups,
// with other operations in between. comm threads: those have threads of their own.
zero_status exchange_in_rings(zero_comm *job, bool comm_threads, uint64_t seed, zero_error *error);

#define CHAIN_BYTES 1000
// Runs a chain of ranks 0, 1, 2 at step 41, in which rank 1 receives one message ("h.0 to h.1") and
// then calls `end` instead of going on. Rank 0 waits for its slot, and rank 2 for a message ("h.1
// to h.2"), both for rank 1.
zero_status break_chain(zero_comm *comm, zero_status (*end)(zero_comm *comm, zero_error *error),
                        zero_error *error);

#endif
