// What a rank keeps by the paper's formulas (section 5), for a bare number of parameters: without
// model, padding or activations.
#ifndef TEST_PLAN_PAPER_STATES_H
#define TEST_PLAN_PAPER_STATES_H

#include "plan/stage_traits.h"

typedef struct paper_policy {                // bytes a parameter
    double parameters, gradients, optimizer; // optimizer: the paper's K
} paper_policy;

// 2 + 2 + 12: 16-bit parameters and gradients; fp32 master, momentum and variance.
extern const paper_policy paper_mixed;
extern const paper_policy paper_fp32; // 4 + 4 + 8

typedef struct paper_bytes { // of one rank
    double parameters, gradients, optimizer;
} paper_bytes;

// ranks: the data-parallel degree.
paper_bytes paper_states_of_rank(const paper_policy *policy, double parameters, int stage,
                                 double ranks);
double paper_states_total(const paper_policy *policy, double parameters, int stage, double ranks);

#endif
