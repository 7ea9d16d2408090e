// How the ranks of a save or a load fail together.
#ifndef ZR_CHECKPOINT_AGREE_H
#define ZR_CHECKPOINT_AGREE_H

#include "comm/comm.h"

// Collective. `mine` is this rank's status, described in *error. The failure of the lowest rank that failed, on every rank, or ZERO_OK.
zero_status zr_ranks_agree(zero_comm *comm, zero_status mine, zero_error *error);

#endif
