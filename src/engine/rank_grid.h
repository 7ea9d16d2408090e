// The communicators of an engine: the job's, and this rank's groups on the axes of the mesh
// (plan/mesh.h). Which one each use takes:
//
//   data     shards: parameters, gradients and what is gathered; versions; numbers of micro-batches
//            and samples; means over micro-batches
//   tensor   what units exchange inside of layers
//   world    whatever all ranks have to know or to wait for: loss, norm, squares of tensors,
//            non-finite values, agreement, failures, checkpoints, barriers
#ifndef ZR_ENGINE_RANK_GRID_H
#define ZR_ENGINE_RANK_GRID_H

#include "comm/communicator.h"
#include "plan/mesh.h"

typedef struct zr_grid {
    zr_mesh mesh;
    zero_comm *world;  // the job's; not owned
    zero_comm *data;   // ranks among which ZeRO partitions; the world itself if it is one group
    zero_comm *tensor; // ranks that hold slices of the same layers; NULL: this one alone
} zr_grid;

// Splits the world, between operations, so that `tensor` neighbouring ranks hold slices of the same
// layers. Collective over the world; with tensor 1 nothing is exchanged. ZERO_ERR_USAGE: tensor
// does not divide the world. After a failure only zr_grid_destroy may be called.
zero_status zr_grid_create(zero_comm *world, int tensor, zr_grid *out, zero_error *error);
// Frees the groups, before the world is destroyed. Not collective; a zeroed grid is allowed.
void zr_grid_destroy(zr_grid *grid);
// Says whether this rank reports what its tensor ranks all have alike: a micro-batch's loss, its
// targets.
bool zr_grid_reports(const zr_grid *grid);
// Sets what records the collectives and waits of every group; NULL: nothing does.
void zr_grid_record(const zr_grid *grid, struct zr_recorder *recorder);
// Begins to count messages anew, in every group.
void zr_grid_hash_reset(const zr_grid *grid);

#endif
