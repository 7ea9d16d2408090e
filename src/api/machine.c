#include "api/machine.h"

#include "base/cpu.h"
#include "comm/environment.h"

static size_t product_scratch(void *user, const zero_product_shape *shape)
{
    zr_queue *queue = user;
    size_t most = 0;
    for (int variant = 0; variant < 4; variant++) { // a unit's shape does not say whether it adds or has a bias
        zr_product product = {.dtype = ZERO_F32, .m = shape->m, .n = shape->n, .k = shape->k, .trans_a = shape->trans_a,
                              .trans_b = shape->trans_b, .add = variant & 1, .epilogue = variant & 2 ? ZR_EPILOGUE_BIAS : ZR_EPILOGUE_NONE};
        size_t bytes = queue->backend->product->scratch(queue, &product);
        most = ZR_MAX(most, bytes);
    }
    return most;
}

// Ranks that share this machine's memory.
static int local_ranks(const zero_comm *comm)
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
    out->staging_bytes = zr_comm_staging_bytes(comm);
    out->memory_limit /= local_ranks(comm);
}
