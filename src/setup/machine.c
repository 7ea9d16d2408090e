#include "setup/machine.h"

#include "base/cpu.h"
#include "comm/environment.h"

size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape)
{
    const zr_product variants[] = { // a unit's shape does not say which of these it is
        {.out = dtype},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS, .gelu_a = true},
        {.out = dtype, .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
        {.out = ZERO_F32},
        {.out = ZERO_F32, .add = true},
        {.out = ZERO_F32, .gelu_a = true},
        {.out = ZERO_F32, .gelu_a = true, .add = true},
    };
    size_t most = 0;
    for (int i = 0; i < ZR_COUNT(variants); i++) {
        zr_product product = variants[i];
        product.dtype = dtype;
        product.m = shape->m, product.n = shape->n, product.k = shape->k;
        product.trans_a = shape->trans_a, product.trans_b = shape->trans_b;
        size_t bytes = queue->backend->product->scratch(queue, &product);
        most = ZR_MAX(most, bytes);
    }
    return most;
}

static size_t product_scratch(void *queue, zero_dtype dtype, const zero_product_shape *shape)
{
    return zr_product_scratch(queue, dtype, shape);
}

// Ranks that share this machine's memory.
int zr_local_ranks(const zero_comm *comm)
{
    zr_launch launch;
    if (comm->versions || zr_launch_read_process(&launch, NULL) != ZERO_OK || launch.size != comm->size || launch.local_size < 1)
        return comm->size;
    return launch.local_size;
}

void zr_machine_fill(zr_queue *queue, zero_comm *comm, zr_machine *out)
{
    *out = (zr_machine){.product_scratch = product_scratch, .user = queue, .ranks = 1, .threads = queue->threads, .mapped = true};
    out->memory_limit = zr_memory_available(out->memory_reason, sizeof out->memory_reason);
    if (!comm)
        return;
    out->ranks = comm->size;
    out->mapped = comm->versions != NULL;
    out->machine_ranks = comm->machine_ranks;
    out->staging_bytes = zr_comm_staging_bytes(comm);
    out->memory_limit /= zr_local_ranks(comm);
}

void zr_machine_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks)
{
    machine->tier_limit[ZERO_TIER_device] = budgets->device_memory;
    machine->tier_limit[ZERO_TIER_host] = budgets->host_memory / local_ranks;
}
