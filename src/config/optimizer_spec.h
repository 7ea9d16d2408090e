// Which optimizer runs with which numbers. The configuration says it; compute/ and engine/ obey.
#ifndef ZR_CONFIG_OPTIMIZER_SPEC_H
#define ZR_CONFIG_OPTIMIZER_SPEC_H

#include "base/errors.h"

typedef enum zr_optimizer_kind {
    // Decay is separate from the gradient. DeepSpeed's "Adam" is this too, if adam_w_mode is true.
    ZR_OPTIMIZER_ADAMW,
    ZR_OPTIMIZER_ADAM_L2, // decay is added to the gradient
    ZR_OPTIMIZER_SGD,
    ZR_OPTIMIZER_ADAGRAD,
    ZR_OPTIMIZER_LION,
    ZR_OPTIMIZER_LAMB,
    ZR_OPTIMIZER_KINDS
} zr_optimizer_kind;

typedef struct zr_optimizer_spec {
    zr_optimizer_kind kind;
    double lr; // of the group; a schedule may replace it
    double beta1, beta2, eps;
    double weight_decay;
    double momentum, dampening;  // SGD
    bool nesterov;               // SGD
    bool bias_correction;        // Adam, LAMB: of the averages, which start at zero
    double min_coeff, max_coeff; // LAMB: bounds of the trust ratio
    bool decay_all;              // false: weight decay only on tensors of two or more dimensions
} zr_optimizer_spec;

typedef struct zr_optimizer_traits {
    const char *name;           // as the table of keys spells it
    const char *states[2];      // names of the fp32 vectors kept for every element; NULL: none
    bool elementwise;           // false: an update needs norms of whole tensors
    zr_optimizer_spec standard; // DeepSpeed's and PyTorch's defaults
} zr_optimizer_traits;

const zr_optimizer_traits *zr_optimizer_traits_of(zr_optimizer_kind kind);
// Returns how many fp32 vectors per element this optimizer keeps in addition to the weights: 0 (SGD
// without momentum), 1 or 2.
int zr_optimizer_states(const zr_optimizer_spec *spec);

// Returns the kind called `name` ("adamw", in any case); -1 if it is unknown or not built.
int zr_optimizer_find(const char *name, bool adam_w_mode);

#endif
