// Plans of the library's own models without engines.
#ifndef TEST_PREDICT_LM_PLAN_H
#define TEST_PREDICT_LM_PLAN_H

#include "plan/plan.h"

typedef struct lm_plan_case {
    const char *spec; // as zr_lm_parse_spec takes it, with a vocabulary
    int64_t batch, seq;
    zero_dtype dtype;
    int stage, ranks;     // 0: 1 rank
    int64_t accumulation; // 0: 1
    int tensor;           // ranks, of which this is the first; 0: layers are whole
    zero_tier optimizer;  // where states are kept
    const char *lora;     // as zr_lora_parse takes it; NULL: the whole model trains
    bool documents;       // micro-batches have positions
} lm_plan_case;

typedef struct lm_plan {
    zero_model *whole, *part; // part: NULL: the plan is of the whole model
    zr_plan *plan;
} lm_plan;

// Makes the plan, or ends the test program with the message.
lm_plan lm_plan_create(const lm_plan_case *c);
void lm_plan_destroy(lm_plan *p);

#endif
