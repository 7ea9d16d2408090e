// A communicator of two ranks as threads that does as little, and as late, as its contract allows:
// what a missing AWAIT would let happen once in a thousand runs happens in every run.
//
// One rank runs at a time. Rank 1 runs until it waits for rank 0, which then runs until what rank 1
// waits for has come, and not one call further. So rank 1 overwrites as early, and rank 0 reads as
// late, as can be. An exchange does nothing before it is awaited; where its result goes is poisoned
// (bytes 0xff: NaN) when it is started. Ranks that wait for each other fail at once: there is no
// time-out.
#ifndef TEST_ENGINE_LAZY_COMM_H
#define TEST_ENGINE_LAZY_COMM_H

#include <zero/comm.h>

#define LAZY_RANKS 2

// What the ranks have in common: one copy of what they map; the machine's gather window; nothing.
void lazy_comm_that_maps(zero_comm **comms);
void lazy_comm_that_shares(zero_comm **comms);
void lazy_comm_apart(zero_comm **comms);

#endif
