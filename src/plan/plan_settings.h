// The numbers of a configuration that decide about memory and messages.
//
// Each struct is declared by a list of its fields, X(kind, name). The plan's hash and the JSON of
// `zero plan` are made from the same lists (settings_fields.h), so neither can forget a field.
#ifndef ZR_PLAN_PLAN_SETTINGS_H
#define ZR_PLAN_PLAN_SETTINGS_H

#include "base/errors.h"
#include <zero/memory.h>
#include <zero/model.h>
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
//   activations  saved, and between kernels; sums, statistics, softmax and loss are fp32 in every
//                policy
//   gradients    of a micro-batch, in buckets and on the wire: contributions are rounded to it once
//   accumulator  of the owner's shard, over the micro-batches
//   master       the weights that the optimizer updates; where parameters have the same type, they
//                are the master
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

// Returns the policy of a type: 16-bit parameters, activations and gradients, with fp32 master and
// moments (the paper's 2 + 2 + 12), or all fp32. The accumulator is fp32 where several
// micro-batches meet in it; else it has the gradients' type.
zr_precision zr_precision_of(zero_dtype dtype, int64_t accumulation);
// Says whether there is a master next to the parameters.
bool zr_precision_has_master(const zr_precision *precision);

// A staging buffer's most elements: some MB of each vector keep every disk busy.
#define ZR_STAGING_BUFFER_ELEMS (1 << 20)

// A value of zr_tiering.sub_group: no group has elements of two parameters, except where these
// share a chunk.
#define ZR_EACH_PARAMETER (-1)

// Where model states live (ZeRO-Offload, ZeRO-Infinity), and in which portions they travel. Zeroed:
// everything is on the device.
//   parameters       stage 3: tier of the own shards; units read copies on the device
//   optimizer        stages 1 to 3: tier of master, states and accumulated gradients, which are
//                    updated from the host
//   on_device        part of the trained elements whose optimizer states stay on the device
//                    nevertheless (Twin-Flow: 1 - ratio)
//   on_host          elements of parameters that stay on the host where the others are on NVMe
//   sub_group        most elements of one group of the update, and where any travel never more than
//                    ZR_STAGING_BUFFER_ELEMS; 0: no limit; or ZR_EACH_PARAMETER
//   read_ahead       where states travel: the next staging buffer is read while one is updated
//   write_behind     where states travel: the staging buffer before is written meanwhile; this and
//                    read_ahead each take one more staging buffer of host memory
//   visits_ahead     number of visits whose parameters are on their way from NVMe to the host, in
//                    addition to the visit that is gathered next
//   elems_ahead      most elements of those parameters; the next visit's travel however many they
//                    are; 0: no limit
//   block            bytes of one transfer to or from NVMe
//   persistent       offloaded parameters: a flat parameter with fewer elements is gathered once a
//                    step and stays on the device
//   persistent_most  most elements of all such flat parameters together
//   reuse            most elements gathered between two visits of a unit for which the first one's
//                    flat parameters stay for the second; 0: none stay
//   live             most elements gathered at one time: nothing is gathered ahead above it; 0: no
//                    limit
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

// The settings of a plan.
//   stage             0..3
//   accumulation      micro-batches of a rank in a step (K)
//   state_vectors     of the optimizer: Adam 2, Lion 1, SGD 0 or 1, ...
//   per_tensor_norms  LAMB
//   orthogonal        Muon (plan/muon.h)
//   gram              its iteration is DeepSpeed's on the Gram matrix
//   factored          Adafactor: of a matrix, averages of rows and columns are kept
//   average           an average of the weights is kept beside them
//   exact_world       micro-batches are summed along one tree, whichever rank computes them
//                     (plan/accumulators.h)
//   delayed           an update is made during the step after it (ZeRO-Offload section 5.2):
//                     parameters are not written while units read them
//   decay_all         weight decay applies to every tensor, else to those of two or more dimensions
//   reduce_bucket     most elements that are sealed but not yet reduced
//   prefetch_bucket   most elements gathered ahead (stage 3 where nothing is mapped)
//   activation_checkpoints      segments of units; only the boundary that enters a segment is kept,
//                               and the rest is computed again; 0: none
//   activation_checkpoint_tier  where those boundaries are kept
//   partition_activations       each tensor rank keeps its share of them (ZeRO-R's P_a); they have
//                               the same boundaries
//   kept_by           number of ranks of a machine, which keeps what it has gathered until the
//                     weights change; 0 or 1: nothing is kept
//   weight_bits       stage 3: trained weights are read as codes of that many bits stand for them
//                     (base/blocks.h), and gathered as codes (qwZ); 0: as they are
//   frozen_bits       the same of frozen weights
//   gradient_bits     contributions are summed over ranks as codes (qgZ); 0: as they are
//   carries           what that rounding loses is added to the next contributions (LoCo)
//   inference         no gradients, no optimizer, activations of one unit at a time
#define ZR_SETTINGS_FIELDS(X)                                                                      \
    X(count, stage)                                                                                \
    X(precision, precision)                                                                        \
    X(amount, accumulation)                                                                        \
    X(count, state_vectors)                                                                        \
    X(flag, per_tensor_norms)                                                                      \
    X(flag, orthogonal)                                                                            \
    X(flag, gram)                                                                                  \
    X(flag, factored)                                                                              \
    X(flag, average)                                                                               \
    X(flag, exact_world)                                                                           \
    X(flag, delayed)                                                                               \
    X(flag, decay_all)                                                                             \
    X(amount, reduce_bucket)                                                                       \
    X(amount, prefetch_bucket)                                                                     \
    X(tiering, tiering)                                                                            \
    X(amount, activation_checkpoints)                                                              \
    X(tier, activation_checkpoint_tier)                                                            \
    X(flag, partition_activations)                                                                 \
    X(amount, kept_by)                                                                             \
    X(count, weight_bits)                                                                          \
    X(count, frozen_bits)                                                                          \
    X(count, gradient_bits)                                                                        \
    X(flag, carries)                                                                               \
    X(flag, inference)

typedef struct zr_settings {
    ZR_SETTINGS_FIELDS(ZR_FIELD_DECLARE)
} zr_settings;

// What plan/ needs to know of a backend and a communicator, as data. setup/ fills it from compute/
// and comm/, or makes it up for a machine that is not here.
typedef struct zr_machine {
    // Returns the scratch bytes of a product of operands of that type; NULL: no scratch is counted.
    size_t (*product_scratch)(void *user, zero_dtype dtype, const zero_product_shape *product);
    void *user;
    int ranks; // among which ZeRO partitions: data ranks
    // Number of ranks that hold slices of the same layers (0 means 1), and this one's index.
    int tensor_ranks, tensor_rank;
    // The part of a pipeline that this rank computes; it outlives the plan. NULL without a
    // pipeline.
    const struct zr_pipeline_part *pipeline;
    int threads; // of one rank
    bool mapped; // the ranks share memory: stage 3 gathers nothing
    // The host cannot read the device's memory (memory/device.h). Then: the backend of its queues,
    // what they take by themselves, and what is unused of the device; else all zero.
    bool far;
    const struct zr_backend *backend;
    int64_t runtime_bytes, unused_bytes;
    // Ranks of a machine that share what is gathered, the fewest of all machines; 0 or 1: no ranks
    // share.
    int machine_ranks;
    int64_t staging_bytes; // kept by the communicator for shards on their way
    int64_t memory_limit;  // bytes a rank may hold; 0 if unknown
    // Budget of each tier, in bytes, within memory_limit; 0 if there is none.
    int64_t tier_limit[ZERO_TIER_COUNT];
    char memory_reason[128];
} zr_machine;

#endif
