#include "plan/mesh.h"

#include <stdio.h>

zero_status zr_mesh_create(int world, int rank, int tensor, int stages, zr_mesh *out,
                           zero_error *error)
{
    char of_stages[48] = "";
    assert(world > 0 && rank >= 0 && rank < world);
    if (stages != 1)
        snprintf(of_stages, sizeof of_stages, "%d pipeline stages x ", stages);
    if (stages < 1 || tensor < 1 || world % ((int64_t)tensor * stages))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%d rank%s of a job are no multiple of %s%d tensor rank%s", world,
                       world == 1 ? "" : "s", of_stages, tensor, tensor == 1 ? "" : "s");
    *out = (zr_mesh){.world = world};
    out->size[ZERO_AXIS_tensor] = tensor;
    out->size[ZERO_AXIS_data] = world / tensor / stages;
    out->size[ZERO_AXIS_pipeline] = stages;
    for (int axis = 0; axis < ZERO_AXIS_COUNT; axis++) {
        out->place[axis] = rank % out->size[axis];
        rank /= out->size[axis];
    }
    return ZERO_OK;
}

int zr_mesh_rank(const zr_mesh *mesh, const int place[ZERO_AXIS_COUNT])
{
    int rank = 0;
    for (int axis = ZERO_AXIS_COUNT - 1; axis >= 0; axis--)
        rank = rank * mesh->size[axis] + place[axis];
    return rank;
}

// Returns the rank that differs from this one on `axis` alone, where it is at `at`.
static int rank_on_axis(const zr_mesh *mesh, zero_axis axis, int at)
{
    zr_mesh other = *mesh;
    other.place[axis] = at;
    return zr_mesh_rank(mesh, other.place);
}

int zr_mesh_group(const zr_mesh *mesh, zero_axis axis, int *members)
{
    for (int i = 0; members && i < mesh->size[axis]; i++)
        members[i] = rank_on_axis(mesh, axis, i);
    return mesh->size[axis];
}

int zr_mesh_colour(const zr_mesh *mesh, zero_axis axis) { return rank_on_axis(mesh, axis, 0); }
