// The numbers of a configuration that decide about memory and messages.
#ifndef ZR_PLAN_SETTINGS_H
#define ZR_PLAN_SETTINGS_H

#include "base/errors.h"
#include <zero/engine.h>

typedef struct zr_precision { // a precision policy: the storage type of everything that training keeps
    const char *name;         // "fp32", "bf16", "fp16"
    zero_dtype parameters;    // as units read them, and on the wire
    zero_dtype activations;   // saved and between kernels; sums, statistics, softmax and loss are fp32 in every policy
    zero_dtype gradients;     // of a micro-batch, in buckets and on the wire: contributions are rounded to it once
    zero_dtype accumulator;   // of the owner's shard over the micro-batches
    zero_dtype master;        // the weights that the optimizer updates; where parameters are as wide, they are the master
    zero_dtype moments;       // optimizer states
} zr_precision;

// The policy of a type: 16-bit parameters, activations and gradients, fp32 master and moments (the paper's 2 + 2 + 12), or all
// fp32. The accumulator is fp32 where several micro-batches meet in it, else as wide as the gradients.
zr_precision zr_precision_of(zero_dtype dtype, int64_t accumulation);
bool zr_precision_has_master(const zr_precision *precision); // beside the parameters

#define ZR_TILE_ELEMS (1 << 20) // some MB of each vector keep every disk busy; more only takes memory

#define ZR_EACH_PARAMETER (-1)  // zr_tiering.sub_group: no group has elements of two parameters, but where these share a chunk

// Where model states live (ZeRO-Offload, ZeRO-Infinity), and in which portions they travel. Zeroed: everything on the device.
typedef struct zr_tiering {
    zero_tier parameters;    // stage 3: of own shards; units read copies on the device
    zero_tier optimizer;     // stages 1 to 3: of master, states and accumulated gradients, which are updated from the host
    double on_device;        // part of the trained elements whose optimizer states stay on the device all the same (Twin-Flow: 1 - ratio)
    int64_t on_host;         // elements of parameters that stay on the host where the others are on NVMe
    int64_t sub_group;       // elements that one group of the update has, at most, and never more than ZR_TILE_ELEMS where any travel; 0: no limit;
                             // or ZR_EACH_PARAMETER
    bool read_ahead;         // where states travel: the next tile is read while one is updated,
    bool write_behind;       // and the one before is written; each takes one more tile of host memory
    int visits_ahead;        // whose parameters are on their way from NVMe to the host, beside the one that is gathered next
    int64_t elems_ahead;     // of those parameters, at most; the next visit's travel whatever they are; 0: no limit
    int64_t block;           // bytes of one transfer to or from NVMe
    int64_t persistent;      // elements below which a piece is gathered once a step and stays on the device, where
    int64_t persistent_most; // all such pieces together have at most so many; offloaded parameters only
    int64_t reuse;           // elements gathered between two visits of a unit, at most, for which the first one's pieces stay for the second; 0: none do
    int64_t live;            // elements gathered at one time, at most: nothing is gathered ahead above it; 0: no limit
} zr_tiering;

typedef struct zr_settings {
    int stage;                 // 0..3
    zr_precision precision;
    int64_t accumulation;      // micro-batches a rank and step (K)
    int state_vectors;         // of the optimizer: Adam 2, Lion 1, SGD 0 or 1, ...
    bool per_tensor_norms;     // LAMB
    bool exact_world;          // micro-batches are summed along one tree whatever rank computes them: plan/counter.h
    bool delayed;              // an update is made beside the step after it (ZeRO-Offload section 5.2): parameters are not written while units read them
    bool decay_all;            // weight decay on every tensor, else on those of two or more dimensions
    int64_t reduce_bucket;     // elements sealed but not yet reduced, at most
    int64_t prefetch_bucket;   // elements gathered ahead, at most (stage 3 where nothing is mapped)
    zr_tiering tiering;
    int64_t checkpoints;       // segments of units of which only the boundary that enters is kept, the rest computed again; 0: none
    zero_tier checkpoint_tier; // where those boundaries are kept
    int64_t kept_by;           // ranks of a machine, which keeps what it has gathered until the weights change; 0 or 1: nothing is kept
    bool inference;            // no gradients, no optimizer, activations of one unit at a time
} zr_settings;

#endif
