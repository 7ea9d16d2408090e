// How the update walks over a rank's elements, and what moves between tiers.
//
//   shard of a flat parameter   [ shard slice | shard slice | shard slice ]
//   groups                      [ shard slice | shard slice ][ shard slice ...
//
// A shard slice lies in one flat parameter and in one group. A group has at most sub_group elements
// of one tier: what one staging buffer of the update holds.
//
// Where anything of a group is on NVMe, its vectors travel through a staging buffer in host memory,
// and several staging buffers make a pipeline: while group i is updated, i+1 is read and i-1 is
// written (ZeRO-Infinity section 5.2.2). So do parameters on a far device whose states the host
// updates.
//
//   staging buffer   [ master | state 0 | state 1 | average | direction | gradient | parameters ]
//
// A staging buffer has only those vectors that travel, with staging_buffer.elems elements each. The
// scales of states in 8 bits, one for each block of elements, stay in memory.
#ifndef ZR_PLAN_GROUPS_H
#define ZR_PLAN_GROUPS_H

#include <zero/memory.h>
#include "base/errors.h"
#include "plan/plan_settings.h"

typedef struct zr_plan zr_plan;

typedef enum zr_vector {
    ZR_VECTOR_MASTER,
    ZR_VECTOR_STATE0,
    ZR_VECTOR_STATE1,
    ZR_VECTOR_SCALES0, // of state 0 in 8 bits
    ZR_VECTOR_SCALES1,
    ZR_VECTOR_AVERAGE, // of the weights
    ZR_VECTOR_DIRECTION,
    ZR_VECTOR_GRADIENT,
    ZR_VECTOR_PARAMETERS,
    ZR_VECTOR_COUNT
} zr_vector;

typedef struct zr_shard_slice {
    int flat_param, group; // group: -1 if the slice is not updated
    int64_t first, count;  // elements of the own shard; at stage 0 of the whole flat parameter
} zr_shard_slice;

typedef struct zr_group { // consecutive shard slices that are updated together
    zero_tier state_tier, parameter_tier;
    int shard_slice_first, shard_slice_count;
    int64_t first, count; // elements in the optimizer state vectors of state_tier
} zr_group;

#define ZR_MOST_STAGING_BUFFERS 3 // one that is updated, one read ahead, one written behind

typedef struct zr_staging_buffer_plan { // what is in host memory while states travel
    int count;                          // staging buffers; 0 if nothing travels
    int64_t elems; // of the largest group (or shard slice without a group) that travels
    int64_t
        first[ZR_VECTOR_COUNT]; // byte of the staging buffer where a vector begins; -1: never in a
                                // staging buffer
    int64_t bytes;              // of one staging buffer
} zr_staging_buffer_plan;

// What a walk over the groups reads and writes. Bit v stands for zr_vector v of every group.
typedef struct zr_walk_vectors {
    uint32_t reads, writes;
} zr_walk_vectors;

// Bytes of one rank.
typedef struct zr_moved {
    int64_t to_host, to_device, nvme_read, nvme_written;
} zr_moved;

enum { ZR_MOST_WALKS = 3 }; // of an update

// What a step moves between tiers. The engine checks that what it has counted equals this plan.
typedef struct zr_moves {
    zr_moved micro_batch; // gradients, and parameters that are not kept
    // In addition, for each earlier sum that a micro-batch's gradients are added to
    // (zr_sum_slots.adds): K - 1 times a step.
    zr_moved earlier_sum;
    zr_moved forward; // evaluation: parameters that are not kept
    // Once after the weights have changed: parameters that stay on the device.
    zr_moved kept;
    zr_moved update[ZR_MOST_WALKS]; // of every update, by its walks
    zr_moved copy;                  // of zr_copy_walk over all groups
    // Part of update[].nvme_read that the very first update does not read: zeros that nothing has
    // been written to yet.
    int64_t update_first_unread;
} zr_moves;

// Lists the walks of an update over all groups, with the existing vectors that each reads and
// writes. Returns their number: LAMB and Muon have two, Adafactor three, and a delayed update has
// two: its second one makes parameters from the master.
int zr_plan_walks(const zr_plan *plan, zr_walk_vectors walks[ZR_MOST_WALKS]);
// The walk that makes parameters from the master.
extern const zr_walk_vectors zr_copy_walk;
// Says whether an update writes the parameters that units read in the same walk as the master.
bool zr_plan_updates_copies(const zr_plan *plan);
// Adds to `moved` what one of these walks moves of a group. The plan adds it up for every group,
// and the engine's walk takes from here what it cannot count in a store. Gradients do not count,
// because they came to the host when they were reduced; nor do states in memory, which are updated
// where they are kept.
void zr_group_moves(const zr_plan *plan, const zr_group *group, const zr_walk_vectors *vectors,
                    zr_moved *moved);
bool zr_plan_has_vector(const zr_plan *plan, zr_vector vector);
// Says the same of a plan with these settings. alone: its schedule is asynchronous.
bool zr_settings_have_vector(const zr_settings *settings, bool alone, zr_vector vector);
// Says whether optimizer states are codes of 8 bits, with a scale for each block.
bool zr_plan_codes_states(const zr_plan *plan);
// Says whether own shards of trained weights are kept as codes, and how many bytes elements of them
// take, whole blocks.
bool zr_plan_codes_weights(const zr_plan *plan);
int64_t zr_plan_weight_bytes(const zr_plan *plan, int64_t elems);
// Returns the bytes of a vector's part for `elems` elements of trained flat parameters, whole
// blocks of them where there are blocks.
int64_t zr_vector_bytes(const zr_settings *settings, zr_vector vector, int64_t elems);
// Returns where a vector lies of elements whose optimizer states are on `states`.
zero_tier zr_vector_tier(zero_tier states, zr_vector vector);
zero_tier zr_group_tier(const zr_group *group, zr_vector vector);
// Says whether parameters cross between a far device and the host, which updates them; the same of
// a vector of a group; and whether it travels through staging buffers, because of that or as it is
// on NVMe.
bool zr_parameters_cross(const zr_plan *plan, zero_tier states, zero_tier parameters);
bool zr_group_crosses(const zr_plan *plan, const zr_group *group, zr_vector vector);
bool zr_group_travels(const zr_plan *plan, const zr_group *group, zr_vector vector);

#endif
