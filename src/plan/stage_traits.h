// What each ZeRO stage partitions.
#ifndef ZR_PLAN_STAGE_TRAITS_H
#define ZR_PLAN_STAGE_TRAITS_H

#include "base/errors.h"

enum { ZR_STAGE_COUNT = 4 };

// All that plan/ asks of a stage; nothing else there compares the stage's number
// (tools/check-program).
typedef struct zr_stage_traits {
    // P_os: a rank keeps the optimizer states of its own shards, and updates these; else of all.
    bool shards_optimizer;
    // P_g: gradients lie in slots that are given back once they are reduced; else whole gradients
    // have a place each.
    bool shards_gradients;
    // P_p: a rank keeps its own shards of the parameters; else a replica of all.
    bool shards_parameters;
} zr_stage_traits;

// stage: 0 .. ZR_STAGE_COUNT - 1.
const zr_stage_traits *zr_stage_traits_of(int stage);

#endif
