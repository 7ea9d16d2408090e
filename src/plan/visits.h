// The order of a micro-batch: when a unit's parameters are needed, and which messages follow from
// it (contract 8).
#ifndef ZR_PLAN_VISITS_H
#define ZR_PLAN_VISITS_H

#include "base/errors.h"
#include <zero/model.h>
#include <zero/traffic.h>

// A unit has a turn: a visit that brings the pieces that stay during the call, then one for each
// streamed piece, which comes and goes:
//
//   forward            [unit][tile 0][tile 1]
//   backward           [unit][tile 1][tile 0]
//   both in one call   [unit][tile 0][tile 1][tile 1][tile 0]
//
// Both in one call: forward again and backward, or forward_backward of the last unit.
typedef struct zr_visit { // one time that parameters are needed, in the order of a micro-batch
    int unit;
    int stream;   // piece that comes and goes; -1: the unit's own visit
    int turn_end; // last visit of the turn
    // of a unit's visit: neither: forward; both: forward, then backward. Of a streamed piece:
    // backward or not
    bool recompute, backward;
    // backward of a streamed piece whose contributions collect apart: where, in the open arena,
    // bytes
    int64_t open_first;
    // what collects there goes to the parked vector after the visit; came from there before it
    bool parks, returns;
    bool ahead; // gathered while the visit before it computes, where anything is gathered
    // unmapped stage 3: the visit whose gathered pieces stay for this one; -1: its own are gathered
    int reuses;
    int piece_count;
    int pieces[ZERO_MAX_PIECES]; // global numbers of those that are read
    // unmapped stage 3: false where an earlier visit's gather was kept, or is reused
    bool gathers[ZERO_MAX_PIECES];
    int64_t gather_first[ZERO_MAX_PIECES]; // where in the gather window, bytes
    // own shard from NVMe: where in the host buffers, bytes; -1: it is in memory
    int64_t staged_first[ZERO_MAX_PIECES];
    // when this visit is acquired, the parameters of that one begin to travel from NVMe, and of all
    // before it; -1: none
    int fetches_visit;
} zr_visit;

typedef enum zr_holding { // what a rank has of parameters,
    ZR_HOLDS_REPLICAS,    // in a window of its own: all of them;
    ZR_HOLDS_A_MAP,       // in the one copy that all ranks map: its shards;
    ZR_HOLDS_SHARDS,      // in vectors: its shards, which are gathered for each visit
} zr_holding;

typedef struct zr_traffic_plan { // of one pass
    int64_t calls[ZERO_COMM_OP_COUNT], bytes[ZERO_COMM_OP_COUNT];
    uint64_t hash;
    int64_t messages;
} zr_traffic_plan;

#endif
