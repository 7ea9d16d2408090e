// What the units of a split model exchange with the other tensor ranks (grid.h). Included by
// <zero/model.h>.
#ifndef ZERO_UNIT_EXCHANGE_H
#define ZERO_UNIT_EXCHANGE_H

#include <zero/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// Exchanges of operands that consist of P shares, one for each rank in order.
typedef enum zero_exchange_kind {
    ZERO_EXCHANGE_SUM,     // every rank gets the sums of all shares (all-reduce); fp32
    ZERO_EXCHANGE_SCATTER, // every rank gets the sums of its own share (reduce-scatter); fp32
    ZERO_EXCHANGE_GATHER,  // every rank gets all ranks' own shares (all-gather)
} zero_exchange_kind;

// The purpose of an exchange. It only decides under which name `zero plan` counts it.
#define ZERO_EXCHANGE_PURPOSES(X)                                                                  \
    X(other, "of units of one's own")                                                              \
    X(sums, "sums of slices")                                                                      \
    X(rows, "gathers of rows")                                                                     \
    X(gains, "gradients of gains")                                                                 \
    X(shared, "gradients of shared keys and values")                                               \
    X(loss, "parts of the loss")                                                                   \
    X(logits, "logits of generated tokens")                                                        \
    X(checkpoints, "divided activation checkpoints")                                               \
    X(boundaries, "divided boundaries of pipeline stages")
typedef enum zero_exchange_purpose {
#define ZERO_EXCHANGE_ENUM(name, words) ZERO_EXCHANGE_FOR_##name,
    ZERO_EXCHANGE_PURPOSES(ZERO_EXCHANGE_ENUM)
#undef ZERO_EXCHANGE_ENUM
        ZERO_EXCHANGE_PURPOSE_COUNT
} zero_exchange_purpose;

typedef struct zero_exchange { // of a unit, made `calls` times in turn
    zero_exchange_kind kind;
    int backward; // 0: forward makes it; 1: backward or forward_backward does
    int replicas; // only the ranks that share a flat parameter (zero_flat_param_desc.replicas); 0:
                  // all
    int64_t elements; // of a share
    zero_dtype dtype;
    int calls;
    zero_exchange_purpose purpose; // 0 for a unit of your own
    // For an exchange of a split backward (zero_unit_ops): 0 if backward_input makes it, 1 if
    // backward_weight does.
    int in_weight;
} zero_exchange;
#define ZERO_MAX_EXCHANGES 32

#ifdef __cplusplus
}
#endif

#endif
