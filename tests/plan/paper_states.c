#include "paper_states.h"

const paper_policy paper_mixed = {2, 2, 12};
const paper_policy paper_fp32 = {4, 4, 8};

paper_bytes paper_states_of_rank(const paper_policy *policy, double parameters, int stage,
                                 double ranks)
{
    const zr_stage_traits *of = zr_stage_traits_of(stage);
    return (paper_bytes){
        .parameters = policy->parameters * parameters / (of->shards_parameters ? ranks : 1),
        .gradients = policy->gradients * parameters / (of->shards_gradients ? ranks : 1),
        .optimizer = policy->optimizer * parameters / (of->shards_optimizer ? ranks : 1),
    };
}

double paper_states_total(const paper_policy *policy, double parameters, int stage, double ranks)
{
    const paper_bytes bytes = paper_states_of_rank(policy, parameters, stage, ranks);
    return bytes.parameters + bytes.gradients + bytes.optimizer;
}
