#include "engine/same_samples.h"

#include "base/dtype.h"
#include "base/message.h"
#include "base/random.h"
#include "engine/engine_state.h"

uint64_t zr_samples_fold(const zero_tensors *batch, uint64_t hash)
{
    for (int i = 0; i < batch->count; i++)
        if (batch->at[i].data)
            hash = zr_hash_bytes(batch->at[i].data, (size_t)zr_tensor_bytes(&batch->at[i]), hash);
    return hash;
}

int64_t zr_samples_difference(const zero_engine *engine)
{
    const zero_comm *tensor = engine->grid.tensor;
    uint64_t hash = zr_hash_bytes(&engine->grid.data->rank, sizeof(int), engine->samples);
    return (int64_t)(hash >> 32) * (tensor->rank == 0 ? tensor->size - 1 : -1);
}

zero_status zr_samples_compare(zero_engine *engine, uint64_t hash, zero_error *error)
{
    zero_comm *tensor = engine->grid.tensor;
    int64_t hashes[ZERO_MAX_RANKS] = {0};
    hashes[tensor->rank] = (int64_t)(hash >> 1);
    ZERO_TRY(zr_comm_all_reduce_small(tensor, hashes, tensor->size, ZERO_I64, ZR_SUM, error));
    for (int r = 1; r < tensor->size; r++)
        if (hashes[r] != hashes[0])
            return zr_fail(error, ZERO_ERR_USAGE,
                           "step %lld: ranks %d and %d compute one model's layers together and "
                           "have different micro-batches; tensor ranks need the same samples, "
                           "those of their data rank (zero_grid_of, zero_position)",
                           (long long)engine->step, zr_comm_job_rank(tensor, 0),
                           zr_comm_job_rank(tensor, r));
    return ZERO_OK;
}
