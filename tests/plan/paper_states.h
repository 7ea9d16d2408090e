// What a rank keeps by the paper's formulas (section 5), for a bare number of parameters: without
// model, padding or activations.
#ifndef TEST_PLAN_PAPER_STATES_H
#define TEST_PLAN_PAPER_STATES_H

#include "plan/stage_traits.h"

extern const zr_state_policy paper_fp32; // 4 + 4 + 8

typedef struct paper_bytes { // of one rank
    double parameters, gradients, optimizer;
} paper_bytes;

// ranks: the data-parallel degree.
paper_bytes paper_states_of_rank(const zr_state_policy *policy, double parameters, int stage,
                                 double ranks);
double paper_states_total(const zr_state_policy *policy, double parameters, int stage,
                          double ranks);

#endif
