// The stages of arXiv 1910.02054, section 5: each partitions what the one before it does, and one
// thing more.
#include "plan/stage_traits.h"

static const zr_stage_traits traits[ZR_STAGE_COUNT] = {
    {0},
    {.shards_optimizer = true},
    {.shards_optimizer = true, .shards_gradients = true},
    {.shards_optimizer = true, .shards_gradients = true, .shards_parameters = true},
};

const zr_stage_traits *zr_stage_traits_of(int stage) { return &traits[stage]; }
