// The numbers of a configuration that decide about memory and messages.
#ifndef ZR_PLAN_SETTINGS_H
#define ZR_PLAN_SETTINGS_H

#include "base/status.h"

typedef struct zr_settings {
    int stage;                 // 0..3
    int64_t accumulation;      // micro-batches a rank and step (K)
    int state_vectors;         // of the optimizer, fp32: Adam 2, Lion 1, SGD 0 or 1, ...
    bool per_tensor_norms;     // LAMB
    bool decay_all;            // weight decay on every tensor, else on those of two or more dimensions
    int64_t reduce_bucket;     // elements sealed but not yet reduced, at most
    bool inference;            // no gradients, no optimizer, activations of one unit at a time
} zr_settings;

#endif
