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
// Returns the largest number of parameters whose model states fit into `bytes` a rank (the theory
// of Table 2: this times the model-parallel degree).
double zr_states_largest(const zr_state_policy *policy, int stage, double ranks, double bytes);

// Elements that a rank exchanges in a step, as a multiple of the parameters.
typedef struct zr_volume {
    double reduce_scatter, all_gather;
} zr_volume;

// Contract 4, for K micro-batches a step: (K+1) x at stages 0 to 2, 3K x at stage 3. At K = 1 these
// are the paper's 2 and 3.
zr_volume zr_volume_of_step(int stage, double accumulation);

#endif
