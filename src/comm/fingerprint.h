// Whether all ranks work on the same things, which each has read for itself: a local copy that is
// out of date, another file of the same name, a configuration of its own. What a rank has read
// becomes a list of fingerprints; the lists are compared with rank 0's.
#ifndef ZR_COMM_FINGERPRINT_H
#define ZR_COMM_FINGERPRINT_H

#include "comm/communicator.h"

typedef struct zr_fingerprint {
    char what[32];  // "configuration", "tokenizer", ...
    char name[160]; // of the file, key or stream, for the message; the ends of long ones
    char value[64]; // what a person would compare, for the message; "": nothing
    uint64_t hash;  // which decides
} zr_fingerprint;

typedef struct zr_fingerprints { // begins zeroed
    zr_fingerprint *at;          // (count), in an order that all ranks have
    int count, room;
    bool failed; // sticky: no memory
} zr_fingerprints;

// hash is of what `name` says where that is a key: other ranks may have the same file under another
// path.
void zr_fingerprints_add(zr_fingerprints *list, const char *what, const char *name,
                         const char *value, uint64_t hash);

// Collective. Frees the list. ZERO_ERR_USAGE on every rank, naming the first rank whose list
// differs from rank 0's, and the first thing in it.
// Some hundred bytes of each fingerprint go from rank 0 to each rank.
zero_status zr_comm_compare_fingerprints(zero_comm *comm, zr_fingerprints *list, zero_error *error);

#endif
