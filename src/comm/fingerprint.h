// Checks whether all ranks work on the same things, which each of them has read for itself: a rank
// may have a local copy that is out of date, another file of the same name, or a configuration of
// its own. What a rank has read becomes a list of fingerprints, which is compared with rank 0's.
#ifndef ZR_COMM_FINGERPRINT_H
#define ZR_COMM_FINGERPRINT_H

#include "comm/communicator.h"

typedef struct zr_fingerprint {
    char what[32];  // "configuration", "tokenizer", ...
    char name[160]; // of the file, key or stream, for the message; long ones are shortened
    char value[64]; // what a person would compare, for the message; "": nothing
    uint64_t hash;  // decides whether two are the same
} zr_fingerprint;

typedef struct zr_fingerprints { // begins zeroed
    zr_fingerprint *at;          // (count) in the same order on all ranks
    int count, room;
    bool failed; // sticky: no memory
} zr_fingerprints;

// Adds a fingerprint. hash: of the value, and of `name` only where that is a key, because other
// ranks may have the same file under another path.
void zr_fingerprints_add(zr_fingerprints *list, const char *what, const char *name,
                         const char *value, uint64_t hash);

// Collective. Frees the list. ZERO_ERR_USAGE on every rank: a list differs from rank 0's; the
// message names the first such rank, and the first thing that differs. Some hundred bytes of each
// fingerprint go from rank 0 to each rank.
zero_status zr_comm_compare_fingerprints(zero_comm *comm, zr_fingerprints *list, zero_error *error);

#endif
