// The mesh of ranks: where each rank of a job stands on each axis (zero/grid.h), and which ranks
// form a group with it. Pure.
//
//   rank of the job = (pipeline * data size + data) * tensor size + tensor
//
// Tensor ranks are neighbours, because they exchange the most; launchers put neighbouring ranks on
// one machine and on neighbouring cores.
#ifndef ZR_PLAN_MESH_H
#define ZR_PLAN_MESH_H

#include "base/errors.h"
#include <zero/grid.h>

typedef struct zr_mesh {
    int world;                  // ranks of the job
    int size[ZERO_AXIS_COUNT];  // ranks on each axis; their product is the world
    int place[ZERO_AXIS_COUNT]; // this rank's, 0 .. size - 1
} zr_mesh;

// Places rank `rank` of `world` where `tensor` ranks hold slices of the same layers, and a pipeline
// has `stages` stages. ZERO_ERR_USAGE: one of them is less than 1, or their product does not divide
// the world.
zero_status zr_mesh_create(int world, int rank, int tensor, int stages, zr_mesh *out,
                           zero_error *error);
// Returns the rank of the job at a place.
int zr_mesh_rank(const zr_mesh *mesh, const int place[ZERO_AXIS_COUNT]);
// Writes the ranks of the job that differ from this one on `axis` alone, and itself, in the order
// of their places; members: (size[axis]), or NULL. Returns how many there are.
int zr_mesh_group(const zr_mesh *mesh, zero_axis axis, int *members);
// Returns the lowest rank of the job in that group, which no other group of the axis contains.
int zr_mesh_colour(const zr_mesh *mesh, zero_axis axis);

#endif
