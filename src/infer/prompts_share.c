// Rank 0 alone may be able to read the prompts, because they come from a pipe or a terminal.
#include "infer/prompts.h"

static zero_status share_ids(zero_comm *comm, zr_ids *ids, zero_error *error)
{
    int64_t count = ids->count;
    ZERO_TRY(zr_comm_broadcast(comm, &count, sizeof count, 0, error));
    if (comm->rank > 0 && !zr_ids_reserve(ids, count))
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for %lld tokens of rank 0's prompts",
                       (long long)count);
    ids->count = count;
    return !count ? ZERO_OK
                  : zr_comm_broadcast(comm, ids->at, count * (int64_t)sizeof *ids->at, 0, error);
}

zero_status zr_prompts_share(zero_comm *comm, zr_prompts *prompts, zr_ids *ends, zero_error *error)
{
    int64_t sizes[] = {prompts->count, prompts->longest};
    if (comm->size == 1)
        return ZERO_OK;
    ZERO_TRY(zr_comm_broadcast(comm, sizes, sizeof sizes, 0, error));
    size_t bytes = (size_t)(sizes[0] + 1) * sizeof *prompts->first;
    if (comm->rank > 0)
        *prompts =
            (zr_prompts){.count = sizes[0], .longest = sizes[1], .first = zr_alloc(bytes, error)};
    if (!prompts->first)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_comm_broadcast(comm, prompts->first, (int64_t)bytes, 0, error));
    ZERO_TRY(share_ids(comm, &prompts->ids, error));
    return share_ids(comm, ends, error);
}
