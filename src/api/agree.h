// How ranks fail together: a phase in which each works for itself (reading, parsing, writing) ends in zr_agree.
#ifndef ZR_API_AGREE_H
#define ZR_API_AGREE_H

#include "comm/comm.h"

// Collective. Every rank gets the failure of the lowest rank that failed, message included, or ZERO_OK.
zero_status zr_agree(zero_comm *comm, zero_status status, zero_error *error);

// Collective. The largest of the ranks' values, on every rank.
zero_status zr_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error);

#endif
