#include "setup/machine_facts.h"

#include "base/cpu.h"
#include "comm/communicator.h"
#include "comm/environment.h"
#include "compute/compute.h"
#include "engine/engine_api.h"

#include <stdio.h>

static size_t product_scratch_of_queue(void *queue, zero_dtype dtype,
                                       const zero_product_shape *shape)
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

// Ranks that are threads share a device.
static void describe_device(const zr_queue *queue, const zero_comm *comm, zr_machine *out)
{
    int64_t unused, all;
    queue->device->ops->free_bytes(queue->device, &unused, &all);
    out->backend = zr_queue_inside(queue).backend;
    out->runtime_bytes = out->backend->runtime_bytes;
    out->unused_bytes = unused / (comm ? zr_local_ranks(comm) : 1);
}

void zr_machine_fill(zr_queue *queue, zero_comm *comm, zr_machine *out)
{
    *out = (zr_machine){.product_scratch = product_scratch_of_queue,
                        .user = queue,
                        .ranks = 1,
                        .threads = queue->threads,
                        .mapped = !zr_device_is_far(queue->device),
                        .far = zr_device_is_far(queue->device)};
    if (out->far)
        describe_device(queue, comm, out);
    out->memory_limit = zr_memory_available(out->memory_reason, sizeof out->memory_reason);
    if (!comm)
        return;
    out->ranks = comm->size;
    out->mapped = comm->versions && !out->far;
    out->machine_ranks = comm->machine_ranks;
    out->staging_bytes = zr_comm_staging_bytes(comm);
    out->memory_limit /= zr_local_ranks(comm);
}

void zr_machine_divide_ranks(zr_machine *machine, int model_ranks, int tensor, int tensor_rank)
{
    machine->ranks /= model_ranks;
    machine->machine_ranks /= model_ranks;
    machine->tensor_ranks = tensor;
    machine->tensor_rank = tensor_rank;
}

void zr_machine_take_groups(const zr_grid *grid, zr_machine *machine)
{
    const zero_comm *data = grid->data;
    machine->ranks = data->size;
    machine->tensor_ranks = grid->mesh.size[ZERO_AXIS_tensor];
    machine->tensor_rank = grid->mesh.place[ZERO_AXIS_tensor];
    machine->mapped = data->versions && !machine->far;
    machine->machine_ranks = machine->far ? 1 : data->machine_ranks;
    machine->staging_bytes = zr_grid_staging_bytes(grid);
}

static int64_t staging_bytes_of_ranks(int ranks) { return ranks > 1 ? zr_staging_bytes(ranks) : 0; }

// On one machine ranks map their peers' memory, and a rank without data ranks maps its own.
void zr_machine_imagine_groups(const zr_job_machines *machines, const zr_mesh *mesh, int replicas,
                               zr_machine *machine)
{
    const int *size = mesh->size;
    bool one = machines->count == 1 && mesh->world <= ZERO_MAX_RANKS;
    machine->mapped = one || size[ZERO_AXIS_data] == 1;
    machine->machine_ranks = zr_job_kv_replicas(machines, mesh, ZERO_AXIS_data);
    machine->staging_bytes = 0;
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT && !one; axis++)
        machine->staging_bytes += staging_bytes_of_ranks(size[axis]);
    if (!one)
        machine->staging_bytes += staging_bytes_of_ranks(replicas);
}

zero_status zr_machine_check(const zr_machine *machine, const zr_settings *settings,
                             zero_error *error)
{
    if (settings->stage < 3 || machine->mapped || settings->kept_by <= 1 ||
        settings->kept_by == machine->machine_ranks)
        return ZERO_OK;
    if (machine->machine_ranks <= 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "zero_optimization.zero_hpz_partition_size is %lld, but a machine here has "
                       "one rank, or its ranks cannot map each other's memory: it has to be 1",
                       (long long)settings->kept_by);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "zero_optimization.zero_hpz_partition_size is %lld, but %d ranks share the "
                   "memory of a machine here: it has to be %d, or 1 for no copy of the weights",
                   (long long)settings->kept_by, machine->machine_ranks, machine->machine_ranks);
}

void zr_machine_set_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks)
{
    machine->tier_limit[ZERO_TIER_device] =
        budgets->device_memory ? budgets->device_memory : machine->unused_bytes;
    machine->tier_limit[ZERO_TIER_host] = budgets->host_memory / local_ranks;
}

bool zr_wants_overlap(const zr_config *config, bool mapped, int threads)
{
    const zr_setting *said = zr_config_setting(config, "zero_optimization.overlap_comm");
    if (said && json_is_boolean(said->value))
        return json_is_true(said->value);
    return !mapped || zr_cpu_budget_get().allowed > threads;
}

zr_rate_setting zr_rate_setting_of(const zero_engine *engine)
{
    const zr_queue *queue = zr_engine_queue(engine);
    zr_rate_setting setting = {.dtype = zr_engine_config(engine)->dtype,
                               .threads = queue->threads,
                               .together = zr_local_ranks(zr_engine_comm(engine))};
    snprintf(setting.path, sizeof setting.path, "%s", queue->backend->path());
    return setting;
}
