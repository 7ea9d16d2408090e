// Model-state memory by the paper's formulas (section 5), for a bare number of parameters: no
// model, no padding, no activations.
#ifndef ZR_PLAN_STATE_FORMULAS_H
#define ZR_PLAN_STATE_FORMULAS_H

#include "base/errors.h"

typedef struct zr_state_policy { // bytes a parameter
    const char *name;
    double parameters, gradients, optimizer; // optimizer: the paper's K
} zr_state_policy;

// 2 + 2 + 12: 16-bit parameters and gradients, fp32 master, momentum, variance
extern const zr_state_policy zr_state_mixed;
extern const zr_state_policy zr_state_fp32; // 4 + 4 + 8

// of one rank
typedef struct zr_state_bytes {
    double parameters, gradients, optimizer;
} zr_state_bytes;

// stage 0: all replicated; 1: P_os; 2: P_os+g; 3: P_os+g+p. ranks: the data-parallel degree.
zr_state_bytes zr_states_of_rank(const zr_state_policy *policy, double parameters, int stage,
                                 double ranks);
double zr_states_total(const zr_state_policy *policy, double parameters, int stage, double ranks);
// The largest number of parameters whose model states fit into `bytes` a rank (Table 2's theory:
// model-parallel degree x this).
double zr_states_largest(const zr_state_policy *policy, int stage, double ranks, double bytes);

// elements a rank and step, as a multiple of the parameters
typedef struct zr_volume {
    double reduce_scatter, all_gather;
} zr_volume;

// Contract 4: K micro-batches a step. Stages 0 to 2: (K+1) x; stage 3: 3K x. At K = 1 the paper's 2
// and 3.
zr_volume zr_volume_of_step(int stage, double accumulation);

#endif
