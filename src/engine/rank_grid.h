// The communicators of an engine: the job's, and this rank's groups on the axes of the mesh
// (plan/mesh.h). Which one each use takes:
//
//   data     shards: parameters, gradients and what is gathered; versions; numbers of micro-batches
//            and samples; means over micro-batches
//   tensor   what units exchange inside of layers
//   pipeline activations and their gradients, in channels between stages; the loss of evaluations
//   world    whatever all ranks have to know or to wait for: loss, norm, squares of tensors (under
//            an asynchronous schedule data and tensor ranks alone wait for those), non-finite
//            values, agreement, failures, checkpoints, barriers
#ifndef ZR_ENGINE_RANK_GRID_H
#define ZR_ENGINE_RANK_GRID_H

#include "comm/communicator.h"
#include "plan/mesh.h"
#include <zero/engine.h>

typedef struct zr_grid {
    zr_mesh mesh;
    zero_comm *world; // the job's; not owned
    union {
        struct {
            // Ranks among which ZeRO partitions; the world itself if it is one group.
            zero_comm *data;
            zero_comm *tensor; // ranks that hold slices of the same layers; NULL: no layer is split
            // The tensor ranks that share flat parameters with this one, if those are some but not
            // all; else NULL.
            zero_comm *replicas;
            zero_comm *pipeline; // ranks that hold different layers, by stage; NULL: no pipeline
        };
        zero_comm *groups[4]; // the same, one after another
    };
} zr_grid;

// Splits the world, between operations, so that `tensor` neighbouring ranks hold slices of the same
// layers, and `replicas` neighbours among them (0: none) share a flat parameter; and `stages` ranks
// are a pipeline. Collective over the world; with one tensor rank and one stage nothing is
// exchanged. ZERO_ERR_USAGE: tensor x stages does not divide the world, or replicas does not divide
// tensor. After a failure only zr_grid_destroy may be called.
zero_status zr_grid_create(zero_comm *world, int tensor, int replicas, int stages, zr_grid *out,
                           zero_error *error);
// Frees the groups, before the world is destroyed. Not collective; a zeroed grid is allowed.
void zr_grid_destroy(zr_grid *grid);
// Says whether this rank reports a micro-batch's loss and its targets: the first tensor rank of the
// last pipeline stage.
bool zr_grid_reports(const zr_grid *grid);
// Sets the recorder of collectives and waits of the job and of data ranks; NULL if there is none.
// Exchanges of tensor ranks are recorded where units make them.
void zr_grid_record(const zr_grid *grid, struct zr_recorder *recorder);
// Returns the bytes that this rank's groups keep for shards on their way.
int64_t zr_grid_staging_bytes(const zr_grid *grid);
// Resets the message hash of every group.
void zr_grid_hash_reset(const zr_grid *grid);

// For the rooms above: the groups that this rank of an engine is in, and its place among them.
const zr_grid *zr_engine_grid(const zero_engine *engine);
// Reports what this rank has exchanged with the ranks of an axis; ranks that share a flat parameter
// are on the tensor axis.
void zr_engine_traffic(const zero_engine *engine, zero_axis axis, zero_traffic *out);
// Reports what it has exchanged in collectives of the whole job. With tensor ranks, this and the
// traffic of the axes add up to zero_traffic_report; without, it equals that of the data axis.
void zr_engine_job_traffic(const zero_engine *engine, zero_traffic *out);

#endif
