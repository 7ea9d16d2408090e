// The memory of a rank as tables: the spaces in which buffers lie, the stores that keep states, and
// the slots of operations that are under way. zr_plan_spaces fills them once everything else is
// planned. The footprint adds them up and the engine reserves them row by row, so the bytes that
// are planned and those that are held have one source.
#ifndef ZR_PLAN_SPACES_H
#define ZR_PLAN_SPACES_H

#include "plan/groups.h"
#include "plan/instruction.h"

typedef enum zr_space_id {
    // Windows, in the order in which all ranks make them.
    ZR_SPACE_PARAMETERS, // replicas, or the one copy that all ranks map
    ZR_SPACE_FROZEN,     // frozen parameters, once on a machine
    ZR_SPACE_GATHERED,   // what stage 3 gathers where nothing is mapped
    ZR_SPACE_GRADIENTS,
    ZR_SPACE_FULL_GRADS,      // accumulated gradients, gathered
    ZR_SPACE_EXCHANGE,        // operands of units, among all tensor ranks
    ZR_SPACE_SHARED_EXCHANGE, // among those that share a flat parameter
    // Arenas.
    ZR_SPACE_OPEN_SUMS, // fp32 contributions before they are rounded
    ZR_SPACE_ACTIVATIONS,
    ZR_SPACE_ACTIVATION_CHECKPOINTS, // boundaries between segments, or buffers for them
    ZR_SPACE_WORKSPACE,              // of units, then of products
    ZR_SPACE_STAGED_PARAMETERS,      // host buffers between NVMe and device
    ZR_SPACE_STAGED_SUMS,
    ZR_SPACE_STAGING_BUFFERS, // of the update
    ZR_SPACE_MUON,            // a matrix, the iteration's workspace, and a message
    ZR_SPACE_STATE_VALUES,    // states in 8 bits as fp32 numbers, between steps
    ZR_SPACE_WEIGHT_VALUES,   // weights in blocks without a master, as fp32 numbers, between steps
    ZR_SPACE_FACTORS,         // Adafactor's averages (factors.h)
    ZR_SPACE_CARRIES,         // what rounding contributions to codes has lost (LoCo)
    // Of a far device (far_spaces.h).
    ZR_SPACE_IDS,      // of a micro-batch
    ZR_SPACE_SENT_IDS, // pinned: on their way there
    ZR_SPACE_NORMS,    // exact sums
    ZR_SPACE_LANDING,  // pinned: the loss, and sums on their way to the host
    ZR_SPACE_STRIP,    // pinned: a part of a vector, between steps
    ZR_SPACE_SAVED,    // pinned: parts of a vector that is saved beside steps
    // Pinned: what NVMe reads and writes in place of these two, each byte where it lies there.
    ZR_SPACE_SENT_CHECKPOINTS,
    ZR_SPACE_SENT_OPEN_SUMS,
    ZR_SPACE_COUNT
} zr_space_id;

typedef enum zr_space_kind {
    ZR_SPACE_NONE,      // this plan has no such space
    ZR_SPACE_SYMMETRIC, // windows: comm/window.h
    ZR_SPACE_SHARED,
    ZR_SPACE_MACHINE,
    ZR_SPACE_ARENA,
} zr_space_kind;

typedef struct zr_space_plan {
    zr_space_kind kind;
    zero_tier tier;
    zero_memory_category category;
    int64_t bytes;   // that a buffer reference may reach
    int64_t counted; // that this rank counts; fewer if ranks share the space
} zr_space_plan;

// Stores: a vector on each tier (zr_store_of_vector), then two that are on one tier.
enum {
    ZR_STORE_PARKED = (int)ZERO_TIER_COUNT * (int)ZR_VECTOR_COUNT, // parked contributions
    ZR_STORE_ACTIVATION_CHECKPOINTS, // what goes through the buffers of activation checkpoints
    ZR_STORE_COUNT
};

typedef struct zr_store_plan {
    zero_tier tier;
    zero_memory_category category;
    int64_t bytes; // 0: there is no such store
    int64_t first; // on NVMe: byte of its scratch space
} zr_store_plan;

int zr_store_of_vector(zero_tier tier, zr_vector vector);
// Returns the space that a buffer is; ZR_SPACE_COUNT for those that are in stores.
zr_space_id zr_space_of_buffer(zr_buffer_id buffer);
void zr_plan_spaces(zr_plan *plan);

#endif
