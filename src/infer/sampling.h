// Chooses the next token: by temperature, among the K likeliest, among the likeliest that together
// have probability P. Pure functions.
#ifndef ZR_INFER_SAMPLING_H
#define ZR_INFER_SAMPLING_H

#include "base/errors.h"

typedef struct zr_candidate {
    float logit;
    int32_t id;
} zr_candidate;

// logits: (count); `room` (count) is scratch; `random` is in [0, 1). Ties go to the smaller id.
int32_t zr_choose_token(const float *logits, int32_t count, double temperature, int top_k,
                        double top_p, double random, zr_candidate *room);

#endif
