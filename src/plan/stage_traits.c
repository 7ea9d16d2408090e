#include "plan/stage_traits.h"

static const zr_stage_traits traits[ZR_STAGE_COUNT] = {
    {0},
    {.shards_optimizer = true},
    {.shards_optimizer = true, .shards_gradients = true},
    {.shards_optimizer = true, .shards_gradients = true, .shards_parameters = true},
};

const zr_stage_traits *zr_stage_traits_of(int stage) { return &traits[stage]; }

const zr_state_policy zr_state_mixed = {"16-bit with fp32 master (Adam)", 2, 2, 12};
const zr_state_policy zr_state_fp32 = {"fp32 (Adam)", 4, 4, 8};

zr_state_bytes zr_states_of_rank(const zr_state_policy *policy, double parameters, int stage,
                                 double ranks)
{
    const zr_stage_traits *of = zr_stage_traits_of(stage);
    return (zr_state_bytes){
        .parameters = policy->parameters * parameters / (of->shards_parameters ? ranks : 1),
        .gradients = policy->gradients * parameters / (of->shards_gradients ? ranks : 1),
        .optimizer = policy->optimizer * parameters / (of->shards_optimizer ? ranks : 1),
    };
}

double zr_states_total(const zr_state_policy *policy, double parameters, int stage, double ranks)
{
    zr_state_bytes bytes = zr_states_of_rank(policy, parameters, stage, ranks);
    return bytes.parameters + bytes.gradients + bytes.optimizer;
}
