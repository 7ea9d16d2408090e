// Model-state memory by the paper's formulas (section 5), for a bare number of parameters: without
// model, padding or activations.
#ifndef ZR_PLAN_STATE_FORMULAS_H
#define ZR_PLAN_STATE_FORMULAS_H

#include "base/errors.h"

typedef struct zr_state_policy { // bytes a parameter
    const char *name;
    double parameters, gradients, optimizer; // optimizer: the paper's K
} zr_state_policy;

// 2 + 2 + 12: 16-bit parameters and gradients; fp32 master, momentum and variance.
extern const zr_state_policy zr_state_mixed;
extern const zr_state_policy zr_state_fp32; // 4 + 4 + 8

// Bytes of one rank.
typedef struct zr_state_bytes {
    double parameters, gradients, optimizer;
} zr_state_bytes;

// stage 0: all replicated; 1: P_os; 2: P_os+g; 3: P_os+g+p. ranks: the data-parallel degree.
zr_state_bytes zr_states_of_rank(const zr_state_policy *policy, double parameters, int stage,
                                 double ranks);
double zr_states_total(const zr_state_policy *policy, double parameters, int stage, double ranks);

#endif
