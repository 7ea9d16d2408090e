// The numbers of a configuration that decide about memory and messages.
//
// Each struct is declared by the list of its fields, X(kind, name), from which the plan's hash and
// the JSON of `zero plan` take theirs (settings_fields.h): so no field can be forgotten there.
#ifndef ZR_PLAN_PLAN_SETTINGS_H
#define ZR_PLAN_PLAN_SETTINGS_H

#include "base/errors.h"
#include <zero/memory.h>
#include <zero/tensor.h>

// The type of each kind of field.
#define ZR_FIELD_TYPE_text const char *
#define ZR_FIELD_TYPE_flag bool
#define ZR_FIELD_TYPE_count int
#define ZR_FIELD_TYPE_amount int64_t
#define ZR_FIELD_TYPE_real double
#define ZR_FIELD_TYPE_dtype zero_dtype
#define ZR_FIELD_TYPE_tier zero_tier
#define ZR_FIELD_TYPE_precision zr_precision
#define ZR_FIELD_TYPE_tiering zr_tiering
#define ZR_FIELD_DECLARE(kind, name) ZR_FIELD_TYPE_##kind name;

// A precision policy: the storage type of everything that training keeps.
//   name         "fp32", "bf16", "fp16"
//   parameters   as units read them, and on the wire
//   activations  saved and between kernels; sums, statistics, softmax and loss are fp32 in every
//                policy
//   gradients    of a micro-batch, in buckets and on the wire: contributions are rounded to it once
//   accumulator  of the owner's shard over the micro-batches
//   master       the weights that the optimizer updates; where parameters are as wide, they are the
//                master
//   moments      optimizer states
#define ZR_PRECISION_FIELDS(X)                                                                     \
    X(text, name)                                                                                  \
    X(dtype, parameters)                                                                           \
    X(dtype, activations)                                                                          \
    X(dtype, gradients)                                                                            \
    X(dtype, accumulator)                                                                          \
    X(dtype, master)                                                                               \
    X(dtype, moments)

typedef struct zr_precision {
    ZR_PRECISION_FIELDS(ZR_FIELD_DECLARE)
} zr_precision;

// The policy of a type: 16-bit parameters, activations and gradients, fp32 master and moments (the
// paper's 2 + 2 + 12), or all fp32. The accumulator is fp32 where several micro-batches meet in it,
// else as wide as the gradients.
zr_precision zr_precision_of(zero_dtype dtype, int64_t accumulation);
bool zr_precision_has_master(const zr_precision *precision); // next to the parameters

// some MB of each vector keep every disk busy; more only takes memory
#define ZR_SLAB_ELEMS (1 << 20)

// zr_tiering.sub_group: no group has elements of two parameters, but where these share a chunk
#define ZR_EACH_PARAMETER (-1)

// Where model states live (ZeRO-Offload, ZeRO-Infinity), and in which portions they travel. Zeroed:
// everything on the device.
//   parameters       stage 3: of own shards; units read copies on the device
//   optimizer        stages 1 to 3: of master, states and accumulated gradients, which are updated
//                    from the host
//   on_device        part of the trained elements whose optimizer states stay on the device all the
//                    same (Twin-Flow: 1 - ratio)
//   on_host          elements of parameters that stay on the host where the others are on NVMe
//   sub_group        elements that one group of the update has, at most, and never more than
//                    ZR_SLAB_ELEMS where any travel; 0: no limit; or ZR_EACH_PARAMETER
//   read_ahead       where states travel: the next slab is read while one is updated,
//   write_behind     and the one before is written; each takes one more slab of host memory
//   visits_ahead     whose parameters are on their way from NVMe to the host, next to the one that
//                    is gathered next
//   elems_ahead      of those parameters, at most; the next visit's travel whatever they are; 0: no
//                    limit
//   block            bytes of one transfer to or from NVMe
//   persistent       elements below which a piece is gathered once a step and stays on the device,
//                    where
//   persistent_most  all such pieces together have at most so many; offloaded parameters only
//   reuse            elements gathered between two visits of a unit, at most, for which the first
//                    one's pieces stay for the second; 0: none do
//   live             elements gathered at one time, at most: nothing is gathered ahead above it; 0:
//                    no limit
#define ZR_TIERING_FIELDS(X)                                                                       \
    X(tier, parameters)                                                                            \
    X(tier, optimizer)                                                                             \
    X(real, on_device)                                                                             \
    X(amount, on_host)                                                                             \
    X(amount, sub_group)                                                                           \
    X(flag, read_ahead)                                                                            \
    X(flag, write_behind)                                                                          \
    X(count, visits_ahead)                                                                         \
    X(amount, elems_ahead)                                                                         \
    X(amount, block)                                                                               \
    X(amount, persistent)                                                                          \
    X(amount, persistent_most)                                                                     \
    X(amount, reuse)                                                                               \
    X(amount, live)

typedef struct zr_tiering {
    ZR_TIERING_FIELDS(ZR_FIELD_DECLARE)
} zr_tiering;

// What is planned.
//   stage             0..3
//   accumulation      micro-batches a rank and step (K)
//   state_vectors     of the optimizer: Adam 2, Lion 1, SGD 0 or 1, ...
//   per_tensor_norms  LAMB
//   exact_world       micro-batches are summed along one tree whatever rank computes them:
//                     plan/counter.h
//   delayed           an update is made during the step after it (ZeRO-Offload section 5.2):
//                     parameters are not written while units read them
//   decay_all         weight decay on every tensor, else on those of two or more dimensions
//   reduce_bucket     elements sealed but not yet reduced, at most
//   prefetch_bucket   elements gathered ahead, at most (stage 3 where nothing is mapped)
//   activation_checkpoints      segments of units of which only the boundary that enters is kept,
//                     the rest computed again; 0: none
//   activation_checkpoint_tier  where those boundaries are kept
//   kept_by           ranks of a machine, which keeps what it has gathered until the weights
//                     change; 0 or 1: nothing is kept
//   inference         no gradients, no optimizer, activations of one unit at a time
#define ZR_SETTINGS_FIELDS(X)                                                                      \
    X(count, stage)                                                                                \
    X(precision, precision)                                                                        \
    X(amount, accumulation)                                                                        \
    X(count, state_vectors)                                                                        \
    X(flag, per_tensor_norms)                                                                      \
    X(flag, exact_world)                                                                           \
    X(flag, delayed)                                                                               \
    X(flag, decay_all)                                                                             \
    X(amount, reduce_bucket)                                                                       \
    X(amount, prefetch_bucket)                                                                     \
    X(tiering, tiering)                                                                            \
    X(amount, activation_checkpoints)                                                              \
    X(tier, activation_checkpoint_tier)                                                            \
    X(amount, kept_by)                                                                             \
    X(flag, inference)

typedef struct zr_settings {
    ZR_SETTINGS_FIELDS(ZR_FIELD_DECLARE)
} zr_settings;

#endif
