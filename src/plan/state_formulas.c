#include "plan/state_formulas.h"

const zr_state_policy zr_state_mixed = {"16-bit with fp32 master (Adam)", 2, 2, 12};
const zr_state_policy zr_state_fp32 = {"fp32 (Adam)", 4, 4, 8};

zr_state_bytes zr_states_of_rank(const zr_state_policy *policy, double parameters, int stage,
                                 double ranks)
{
    return (zr_state_bytes){
        .parameters = policy->parameters * parameters / (stage >= 3 ? ranks : 1),
        .gradients = policy->gradients * parameters / (stage >= 2 ? ranks : 1),
        .optimizer = policy->optimizer * parameters / (stage >= 1 ? ranks : 1),
    };
}

double zr_states_total(const zr_state_policy *policy, double parameters, int stage, double ranks)
{
    zr_state_bytes bytes = zr_states_of_rank(policy, parameters, stage, ranks);
    return bytes.parameters + bytes.gradients + bytes.optimizer;
}
