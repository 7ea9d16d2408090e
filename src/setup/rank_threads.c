#define _GNU_SOURCE
#include "setup/machine_facts.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/random.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

// Returns the same number for all ranks that share one set of cores, and another for ranks bound
// elsewhere.
static int64_t hash_of_allowed_cores(void)
{
    char host[256] = "";
    cpu_set_t mask;
    CPU_ZERO(&mask);
    gethostname(host, sizeof host - 1);
    sched_getaffinity(0, sizeof mask, &mask);
    return (int64_t)(zr_hash_bytes(&mask, sizeof mask, zr_hash_text(host)) >> 1);
}

static zero_status count_kv_replicas(zero_comm *comm, int *kv_replicas, zero_error *error)
{
    *kv_replicas = 1;
    if (comm->size == 1)
        return ZERO_OK;
    int64_t *names = zr_alloc((size_t)comm->size * sizeof *names, error);
    if (!names)
        return ZERO_ERR_MEMORY;
    names[comm->rank] = hash_of_allowed_cores();
    zero_status status = zr_comm_all_reduce_small(comm, names, comm->size, ZERO_I64, ZR_SUM, error);
    *kv_replicas = 0;
    for (int r = 0; r < comm->size; r++)
        *kv_replicas += names[r] == names[comm->rank];
    zr_free(names);
    return status;
}

// Gives every rank as many threads as the rank with the fewest, because the bits of results depend
// on the number of threads.
static zero_status agree_on_fewest_threads(zero_comm *comm, int kv_replicas, int cores,
                                           zr_rank_threads *out, zero_error *error)
{
    int64_t least = out->count;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &least, 1, ZERO_I64, ZR_MIN, error));
    if (least < out->count)
        snprintf(out->reason, sizeof out->reason, "as many as the rank with the fewest cores");
    out->count = (int)least;
    out->wanted = out->count * kv_replicas;
    out->cores = cores;
    return ZERO_OK;
}

zero_status zr_rank_threads_choose(zero_comm *comm, int asked, zr_rank_threads *out,
                                   zero_error *error)
{
    zr_cpu_budget budget = zr_cpu_budget_get();
    int kv_replicas;
    ZERO_TRY(count_kv_replicas(comm, &kv_replicas, error));
    if (asked > 0) {
        out->count = asked;
        snprintf(out->reason, sizeof out->reason, "as asked; cores: %s", budget.reason);
        return agree_on_fewest_threads(comm, kv_replicas, budget.allowed, out, error);
    }
    out->count = ZR_MAX(1, budget.allowed / kv_replicas);
    if (kv_replicas > 1)
        snprintf(out->reason, sizeof out->reason, "cores: %s, shared by %d ranks", budget.reason,
                 kv_replicas);
    else
        snprintf(out->reason, sizeof out->reason, "cores: %s", budget.reason);
    return agree_on_fewest_threads(comm, kv_replicas, budget.allowed, out, error);
}
