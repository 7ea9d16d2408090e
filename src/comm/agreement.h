// How ranks fail together: a phase in which each rank works for itself (reading, parsing, writing)
// ends in zr_comm_agree, so that no rank waits alone in the next collective. And how they check
// that they work on the same things.
#ifndef ZR_COMM_AGREEMENT_H
#define ZR_COMM_AGREEMENT_H

#include "comm/communicator.h"

// Collective. `mine` is this rank's status, described in *error (which may be NULL). Every rank
// returns ZERO_OK, or the failure of the lowest rank that failed; on ranks that did not fail
// themselves the message names the rank that did. If the ranks cannot agree, because one is gone, a
// rank that failed before keeps its own failure, and the others return the communicator's.
zero_status zr_comm_agree(zero_comm *comm, zero_status mine, zero_error *error);

// Collective. Sets *value to the largest of the ranks' values, on every rank.
zero_status zr_comm_agree_on_largest(zero_comm *comm, int64_t *value, zero_error *error);

// Each rank reads configuration, tokenizer and files for itself: it may have a local copy that is
// out of date, another file of the same name, or a configuration of its own. So what a rank has
// read becomes a list of fingerprints, which is compared with rank 0's.
typedef struct zr_fingerprint {
    char what[32];  // "configuration", "tokenizer", ...
    char name[160]; // of the file, key or stream, for the message; long ones are shortened
    char value[64]; // what a person would compare, for the message; "" if there is nothing
    uint64_t hash;  // decides whether two are the same
} zr_fingerprint;

typedef struct zr_fingerprints { // begins zeroed
    zr_fingerprint *at;          // (count) in the same order on all ranks
    int count, room;
    bool failed; // sticky: no memory
} zr_fingerprints;

// Adds a fingerprint. hash: of the value, and of `name` only if that is a key, because other ranks
// may have the same file under another path.
void zr_fingerprints_add(zr_fingerprints *list, const char *what, const char *name,
                         const char *value, uint64_t hash);

// Collective. Frees the list. ZERO_ERR_USAGE on every rank: a list differs from rank 0's; the
// message names the first such rank, and the first thing that differs. Some hundred bytes of each
// fingerprint go from rank 0 to each rank.
zero_status zr_comm_compare_fingerprints(zero_comm *comm, zr_fingerprints *list, zero_error *error);

#endif
