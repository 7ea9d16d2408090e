// How ranks fail together: a phase in which each rank works for itself (reading, parsing, writing)
// ends in zr_comm_agree, so that no rank waits alone in the next collective.
#ifndef ZR_COMM_AGREEMENT_H
#define ZR_COMM_AGREEMENT_H

#include "comm/communicator.h"

// Collective. `mine` is this rank's status, described in *error (which may be NULL). Every rank
// returns ZERO_OK, or the failure of the lowest rank that failed; on ranks that did not fail
// themselves the message says whose it is. Where the ranks cannot agree, because one is gone, a
// rank that failed before keeps its own failure, and the others return the communicator's.
zero_status zr_comm_agree(zero_comm *comm, zero_status mine, zero_error *error);

// Collective. Sets *value to the largest of the ranks' values, on every rank.
zero_status zr_comm_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error);

#endif
