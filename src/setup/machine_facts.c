#include "setup/machine_facts.h"

#include "base/cpu.h"
#include "comm/environment.h"
#include "compute/product_scratch.h"

static size_t product_scratch(void *queue, zero_dtype dtype, const zero_product_shape *shape)
{
    return zr_product_scratch(queue, dtype, shape);
}

int zr_local_ranks(const zero_comm *comm)
{
    zr_launch launch;
    if (comm->versions || zr_launch_read_process(&launch, NULL) != ZERO_OK ||
        launch.size != comm->size || launch.local_size < 1)
        return comm->size;
    return launch.local_size;
}

void zr_machine_fill(zr_queue *queue, zero_comm *comm, zr_machine *out)
{
    *out = (zr_machine){.product_scratch = product_scratch,
                        .user = queue,
                        .ranks = 1,
                        .threads = queue->threads,
                        .mapped = true};
    out->memory_limit = zr_memory_available(out->memory_reason, sizeof out->memory_reason);
    if (!comm)
        return;
    out->ranks = comm->size;
    out->mapped = comm->versions != NULL;
    out->machine_ranks = comm->machine_ranks;
    out->staging_bytes = zr_comm_staging_bytes(comm);
    out->memory_limit /= zr_local_ranks(comm);
}

void zr_machine_expect(zr_machine *machine, int model_ranks, int tensor, int tensor_rank)
{
    machine->ranks /= model_ranks;
    machine->machine_ranks /= model_ranks;
    machine->tensor_ranks = tensor;
    machine->tensor_rank = tensor_rank;
}

void zr_machine_divide(const zr_grid *grid, zr_machine *machine)
{
    const zero_comm *data = grid->data;
    machine->ranks = data->size;
    machine->tensor_ranks = grid->mesh.size[ZERO_AXIS_tensor];
    machine->tensor_rank = grid->mesh.place[ZERO_AXIS_tensor];
    machine->mapped = data->versions != NULL;
    machine->machine_ranks = data->machine_ranks;
    machine->staging_bytes = zr_grid_staging_bytes(grid);
}

void zr_machine_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks)
{
    machine->tier_limit[ZERO_TIER_device] = budgets->device_memory;
    machine->tier_limit[ZERO_TIER_host] = budgets->host_memory / local_ranks;
}
