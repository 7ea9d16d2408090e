#include "engine/rank_grid.h"

static zero_status split_along_axis(zr_grid *grid, zero_axis axis, const char *name,
                                    zero_comm **out, zero_error *error)
{
    return zr_comm_split(grid->world, zr_mesh_colour(&grid->mesh, axis), grid->mesh.place[axis],
                         name, out, error);
}

zero_status zr_grid_create(zero_comm *world, int tensor, int replicas, int stages, zr_grid *out,
                           zero_error *error)
{
    *out = (zr_grid){.world = world, .data = world};
    ZERO_TRY(zr_mesh_create(world->size, world->rank, tensor, stages, &out->mesh, error));
    if (tensor == 1 && stages == 1)
        return ZERO_OK;
    if (replicas && tensor % replicas)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "a flat parameter is shared by %d tensor ranks at a time, which does not divide %d",
            replicas, tensor);
    out->data = NULL;
    // All ranks make their groups in the same order.
    if (tensor > 1)
        ZERO_TRY(split_along_axis(out, ZERO_AXIS_tensor, "tensor", &out->tensor, error));
    ZERO_TRY(split_along_axis(out, ZERO_AXIS_data, "data", &out->data, error));
    if (stages > 1)
        ZERO_TRY(split_along_axis(out, ZERO_AXIS_pipeline, "pipeline", &out->pipeline, error));
    return replicas ? zr_comm_split(world, world->rank / replicas, world->rank % replicas,
                                    "sharing", &out->replicas, error)
                    : ZERO_OK;
}

void zr_grid_destroy(zr_grid *grid)
{
    for (int i = 0; i < ZR_COUNT(grid->groups); i++)
        if (grid->groups[i] != grid->world)
            zero_comm_destroy(grid->groups[i]);
    *grid = (zr_grid){0};
}

bool zr_grid_reports(const zr_grid *grid)
{
    const zr_mesh *mesh = &grid->mesh;
    return mesh->place[ZERO_AXIS_tensor] == 0 &&
           mesh->place[ZERO_AXIS_pipeline] == mesh->size[ZERO_AXIS_pipeline] - 1;
}

void zr_grid_record(const zr_grid *grid, zr_recorder *recorder)
{
    zr_comm_record(grid->world, recorder);
    zr_comm_record(grid->data, recorder);
    if (grid->pipeline)
        zr_comm_record(grid->pipeline, recorder);
}

int64_t zr_grid_staging_bytes(const zr_grid *grid)
{
    int64_t bytes = 0;
    for (int i = 0; i < ZR_COUNT(grid->groups); i++)
        bytes += grid->groups[i] ? zr_comm_staging_bytes(grid->groups[i]) : 0;
    return bytes;
}

void zr_grid_hash_reset(const zr_grid *grid)
{
    for (int i = 0; i < ZR_COUNT(grid->groups); i++)
        if (grid->groups[i])
            zr_comm_hash_reset(grid->groups[i]);
}
