// The order of a micro-batch: when a unit's parameters are needed, and which messages follow from
// it (contract 8).
#ifndef ZR_PLAN_VISIT_H
#define ZR_PLAN_VISIT_H

#include "base/errors.h"
#include <zero/model.h>
#include <zero/traffic.h>

// A unit has a turn: first a visit that brings the flat parameters that stay during the call, then
// one visit for each streamed flat parameter, which comes and goes:
//
//   forward            [unit][tile 0][tile 1]
//   backward           [unit][tile 1][tile 0]
//   both in one call   [unit][tile 0][tile 1][tile 1][tile 0]
//
// "Both in one call" is forward again and backward, or the last unit's forward_backward.
typedef enum zr_visit_kind {
    ZR_VISIT_FORWARD,
    ZR_VISIT_RECOMPUTE, // forward again, for what it did not keep
    ZR_VISIT_BACKWARD,  // or the last unit's forward_backward
    ZR_VISIT_RECOMPUTE_BACKWARD,
} zr_visit_kind;

typedef struct zr_visit { // one use of parameters, in the order of a micro-batch
    int unit;
    int stream;         // the flat parameter that comes and goes; -1: this is the unit's own visit
    int turn_end;       // last visit of the turn
    zr_visit_kind kind; // a streamed flat parameter's: FORWARD or BACKWARD
    // Set if backward is made in two parts: this visit is the part of the input, which makes no
    // gradients, or the part of the weights.
    bool of_input, of_weights;
    int pass_end; // the end of the visits of its pass; without a pipeline, of all
    bool ahead;   // what it gathers is gathered while the visit before it computes
    // Unmapped stage 3: the visit whose gathered flat parameters stay for this one; -1 if it
    // gathers its own.
    int reuses;
    int flat_param_count;
    int flat_params[ZERO_MAX_FLAT_PARAMS]; // global numbers of the flat parameters that are read
} zr_visit;

static inline bool zr_visit_recomputes(zr_visit_kind kind)
{
    return kind == ZR_VISIT_RECOMPUTE || kind == ZR_VISIT_RECOMPUTE_BACKWARD;
}
static inline bool zr_visit_has_backward(zr_visit_kind kind)
{
    return kind == ZR_VISIT_BACKWARD || kind == ZR_VISIT_RECOMPUTE_BACKWARD;
}
// Says whether the visit adds to gradients.
static inline bool zr_visit_adds(const zr_visit *visit)
{
    return zr_visit_has_backward(visit->kind) && !visit->of_input;
}

typedef enum zr_holding { // what a rank holds of the parameters
    ZR_HOLDS_TIED_COPIES, // all of them: a copy of its own, or of a machine (zr_flat_param.shared)
    ZR_HOLDS_A_MAP,       // its shards, in the one copy that all ranks map
    ZR_HOLDS_SHARDS,      // its shards, in vectors; they are gathered for each visit
} zr_holding;

typedef struct zr_traffic_plan { // of one pass in one group
    int64_t calls[ZERO_COMM_OP_COUNT], bytes[ZERO_COMM_OP_COUNT];
    int64_t coded; // of the bytes of reduce-scatters: those of codes
    uint64_t hash;
    int64_t messages;
} zr_traffic_plan;

enum { ZR_EXCHANGE_KINDS = ZERO_EXCHANGE_GATHER + 1 };
// What tensor ranks exchange, by purpose and kind.
typedef struct zr_exchange_table {
    int64_t calls[ZERO_EXCHANGE_PURPOSE_COUNT][ZR_EXCHANGE_KINDS];
    int64_t bytes[ZERO_EXCHANGE_PURPOSE_COUNT][ZR_EXCHANGE_KINDS]; // that a rank fetches
} zr_exchange_table;

typedef struct zr_pass_traffic { // of one pass, by the group of ranks that exchanges
    zr_traffic_plan data;        // ranks among which ZeRO partitions
    zr_traffic_plan tensor;      // ranks that hold slices of the same layers
    zr_traffic_plan replicas;    // tensor ranks that share a flat parameter
    zr_traffic_plan pipeline;    // ranks of neighbouring stages
    zr_exchange_table exchanges; // of tensor ranks and of replicas together
} zr_pass_traffic;

#endif
