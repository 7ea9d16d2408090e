// A communicator of two ranks as threads that does as little, and as late, as its contract allows:
// what would go wrong once in a thousand runs if an AWAIT is missing goes wrong in every run.
//
// Only one rank runs at a time. Rank 1 runs until it waits for rank 0; then rank 0 runs until rank
// 1 need not wait any longer, and not one call further. So rank 1 overwrites as early, and rank 0
// reads as late, as possible. An exchange does nothing before it is awaited, and the place of its
// result is poisoned (bytes 0xff: NaN) when it is started. Ranks that wait for each other fail at
// once, so there is no time-out.
#ifndef TEST_ENGINE_LAZY_COMM_H
#define TEST_ENGINE_LAZY_COMM_H

#include <zero/comm.h>

#define LAZY_RANKS 2

// Make communicators whose ranks share one copy of what they map; the machine's gather window;
// nothing.
void lazy_comm_that_maps(zero_comm **comms);
void lazy_comm_that_shares(zero_comm **comms);
void lazy_comm_apart(zero_comm **comms);

#endif
