// The plan: everything that can be known before the first step. Pure functions compute it, so it is
// the same on every rank.
//
//   model + shape + settings + machine  ->  flat parameters, shards, offsets, bytes by category,
//                                           messages and their hashes
#ifndef ZR_PLAN_PLAN_H
#define ZR_PLAN_PLAN_H

#include "plan/accumulators.h"
#include "plan/factors.h"
#include "plan/groups.h"
#include "plan/muon.h"
#include "plan/plan_settings.h"
#include "plan/flat_params.h"
#include "plan/pipeline/part.h"
#include "plan/program.h"
#include "plan/spaces.h"
#include "plan/visit.h"

#define ZR_ACTIVATION_ALIGN 64 // bytes

typedef struct zr_unit_plan {
    int flat_param_count;
    int *flat_params; // (flat_param_count) global flat parameter numbers: owned, then borrowed
    zero_unit_sizes sizes;
    bool fused;          // the last unit, where it has forward_backward
    int segment;         // of the segments that are computed again
    bool split;          // its backward is made in two parts
    bool in_set;         // saved_first is counted from the micro-batch's set of the chunk
    bool out_in_set;     // so is out_first
    int64_t saved_first; // bytes in the activations arena
    int64_t held_first;  // of a split unit: what is held between the parts, in the set
    bool out_kept;       // its boundary is an activation checkpoint
    int64_t out_first;   // bytes of the activation checkpoints if out_kept, else of activations
} zr_unit_plan;

struct zr_plan {
    const zero_model *model;
    zr_settings settings;
    zero_shape shape;
    int ranks;                     // data ranks
    int tensor_ranks, tensor_rank; // 1, 0: no layer is split
    int replicas; // tensor ranks, some but not all, that share a flat parameter; 0 if there are
                  // none
    int world;    // ranks of the job
    // The part of a pipeline that this rank computes; NULL without a pipeline.
    const zr_pipeline_part *pipeline;
    int chunk_count; // of units; 1 without a pipeline
    zr_chunk_plan chunks[ZR_MOST_CHUNKS];
    zr_action *actions; // (action_count) of this pipeline stage in a window
    int action_count;
    zr_link
        *links; // (link_count) of the whole pipeline: between chunks, then two for each tied weight
    int link_count;
    zr_tied_weight_plan *tied_weights; // (tied_weight_count) of the whole model
    int tied_weight_count;
    // Versions of the parameters, and number of steps whose gradients coexist: 1, unless an
    // asynchronous schedule needs more.
    int versions, step_sums;
    // 2bw: the first link of a step's sums; each pipeline stage but the first has two, to the first
    // stage and back. -1 for other schedules.
    int sums_link;
    bool mapped;
    bool far; // as in zr_machine, and so is backend
    const struct zr_backend *backend;
    int64_t runtime_bytes; // as in zr_machine
    zr_holding holding;
    bool updates_whole; // a rank updates whole flat parameters, else its own shards
    zero_memory_category gradient_window_is; // what the bytes of the gradient window count as
    int machine_ranks; // ranks that share what is gathered; 1 if no ranks share
    int flat_param_count, unit_count;
    int tensor_count;           // zr_plan_tensor.number is less than this
    zr_tensor_factors *factors; // (tensor_count) by number; NULL unless settings.factored
    int64_t factor_elems;       // of all of them
    zr_flat_param *flat_params; // (flat_param_count)
    zr_unit_plan *units;        // (unit_count)
    int64_t parameters;         // trainable and frozen, of the whole model, without padding
    int64_t elems;              // of all flat parameters, padded
    int64_t full_bytes;         // of a full replica
    int64_t frozen_bytes;       // of the frozen flat parameters that lie once on a machine
    int64_t shard_bytes[ZERO_TIER_COUNT]; // of the shard vectors
    int64_t open_bytes; // of the open arena: fp32 contributions before they are rounded
    int64_t grad_bytes; // of the gradient window
    // Of the window in which accumulators are gathered, at stage 0 where they have another type
    // than the gradients.
    int64_t whole_bytes;
    int64_t accumulator_bytes[ZERO_TIER_COUNT]; // all 0: gradients are reduced in place
    // Of one optimizer state vector, and of the master weights.
    int64_t state_elems[ZERO_TIER_COUNT];
    int64_t carry_bytes; // of all flat parameters (zr_flat_param.carry_first)
    int64_t staged_parameter_bytes, staged_gradient_bytes; // host buffers between NVMe and device
    int64_t parked_bytes; // of the parked contributions, whole flat parameters
    int *sealed;          // (sealed_count) flat parameters in the order in which they are sealed
    int sealed_count;
    int shard_slice_count, group_count;
    zr_shard_slice *shard_slices; // (shard_slice_count)
    zr_group *groups;             // (group_count) in the order of the update
    zr_staging_buffer_plan staging_buffer;
    int matrix_count;
    zr_muon_matrix *matrices; // (matrix_count) Muon's, by rounds and owners
    // Of the largest one, in bf16; of the iteration's workspace; of its products' scratch.
    int64_t matrix_bytes, orthogonal_bytes, orthogonal_scratch;
    zr_moves moves;
    int visit_count;
    // (visit_count) of each chunk, forward of its units and then backward. A visit's flat
    // parameters are acquired and released once in a micro-batch.
    zr_visit *visits;
    // Bytes of the gather window of unmapped stage 3: kept flat parameters first, then places that
    // visits take in turn.
    int64_t gather_bytes;
    // This rank's part of gather_bytes on the smallest machine; a rank of a larger machine holds
    // less.
    int64_t gather_share;
    int64_t activation_bytes; // saved buffers, boundaries, two boundary gradients
    int segment_count;        // 0 if nothing is computed again
    // Number of tensor ranks that divide each activation checkpoint; 1 if each keeps all of it.
    int checkpoint_shares;
    // On the device: the boundaries between segments, or two buffers through which they go.
    int64_t activation_checkpoint_buffer_bytes;
    // This rank's shares of the boundaries that go through the buffers, on their tier.
    int64_t activation_checkpoint_bytes;
    int64_t boundary_first[2]; // bytes in the activations arena, of both boundary gradients
    int64_t boundary_bytes;    // of each boundary gradient
    int64_t workspace_bytes, product_scratch_bytes;
    // Bytes of the windows for exchanges with the other tensor ranks, and with those of them that
    // share a flat parameter; 0 if there are no such exchanges.
    int64_t exchange_bytes, shared_exchange_bytes;
    zr_program program;
    zr_space_plan spaces[ZR_SPACE_COUNT];
    zr_store_plan stores[ZR_STORE_COUNT];
    int slots[ZR_SLOT_KIND_COUNT]; // number of each kind in the program
    // The sums of spaces and stores, and links and staging memory of collectives.
    int64_t bytes[ZERO_TIER_COUNT][ZERO_MEM_COUNT];
    zr_pass_traffic traffic[ZR_PASSES];
    // Compared at the start: what all ranks of the job must agree on, and what the data ranks that
    // hold the same part of the model must.
    uint64_t job_hash, hash;
};

// Pure. ZERO_ERR_CONFIG, ZERO_ERR_USAGE, ZERO_ERR_UNSUPPORTED, ZERO_ERR_MEMORY, or a unit's own
// error. The caller frees *out with zr_plan_destroy.
zero_status zr_plan_create(const zero_model *model, const zero_shape *shape,
                           const zr_settings *settings, const zr_machine *machine, zr_plan **out,
                           zero_error *error);
void zr_plan_destroy(zr_plan *plan);
int64_t zr_plan_tier_bytes(const zr_plan *plan, zero_tier tier);
int64_t zr_plan_total_bytes(const zr_plan *plan); // device and host
// Says whether the plan fits into the machine's memory and its budgets.
bool zr_plan_fits(const zr_plan *plan, const zr_machine *machine);
// Writes, for a plan that does not fit, which limit it exceeds, and by how much.
void zr_plan_describe_excess(const zr_plan *plan, const zr_machine *machine, char *out,
                             size_t size);
// Writes the least change with which it would fit: stage, tiers of states, micro-batch, activation
// checkpoints, windows. If no such change suffices, writes other advice and returns false.
bool zr_plan_suggest(const zr_plan *plan, const zr_machine *machine, char *out, size_t size);
// ZERO_ERR_LIMIT: the plan exceeds the machine's memory or a budget; the message says what would
// fit (stage, offload, micro-batch).
zero_status zr_plan_check_memory(const zr_plan *plan, const zr_machine *machine, zero_error *error);
// Returns this rank's part of bytes that the ranks of a machine share, on the smallest machine.
int64_t zr_plan_share_of_machine(const zr_plan *plan, int64_t bytes);
// Says whether the gradient window holds whole gradients (stages 0 and 1) or slots (2 and 3).
bool zr_plan_whole_gradients(const zr_plan *plan);
// Says whether the boundary that a unit writes is an activation checkpoint or enters the last unit.
bool zr_plan_ends_segment(const zr_plan *plan, int unit);
int zr_plan_segment_first(const zr_plan *plan, int segment); // its first unit
// Returns the bytes that this rank keeps of the activation checkpoint that enters a segment, if it
// goes through the buffers; else 0.
int64_t zr_activation_checkpoint_bytes(const zr_plan *plan, int segment);

#endif
