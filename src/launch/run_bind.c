// Assigns cores to ranks: equal shares of the cores that this process may use, in whole cores, with
// neighbouring cores together.
#define _GNU_SOURCE
#include "base/cpu.h"
#include "launch/run_ranks.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

// Adds the allowed part of the n-th core that `allowed` touches.
static bool nth_core(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int n,
                     hwloc_bitmap_t add_to)
{
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core))) {
        if (!hwloc_bitmap_intersects(core->cpuset, allowed) || n-- > 0)
            continue;
        hwloc_bitmap_t own = hwloc_bitmap_dup(core->cpuset);
        bool made = own && hwloc_bitmap_and(own, own, allowed) == 0 &&
                    hwloc_bitmap_or(add_to, add_to, own) == 0;
        hwloc_bitmap_free(own);
        return made;
    }
    return false;
}

static bool cpu_mask_of_rank(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int rank,
                             int cores, cpu_set_t *out)
{
    hwloc_bitmap_t share = hwloc_bitmap_alloc();
    bool made = share != NULL;
    for (int i = 0; i < cores && made; i++)
        made = nth_core(topology, allowed, rank * cores + i, share);
    made = made && hwloc_cpuset_to_glibc_sched_affinity(topology, share, out, sizeof *out) == 0;
    hwloc_bitmap_free(share);
    return made;
}

void zr_run_bind(int ranks, cpu_set_t *masks, bool *bound)
{
    int cores = zr_cpu_budget_get().allowed / ranks;
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    bool ready = allowed && cores > 0 && hwloc_topology_init(&topology) == 0;
    if (ready) {
        bool known = hwloc_topology_load(topology) == 0 &&
                     hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) == 0;
        for (int r = 0; r < ranks; r++)
            bound[r] = known && cpu_mask_of_rank(topology, allowed, r, cores, &masks[r]);
        hwloc_topology_destroy(topology);
    }
    for (int r = 0; r < ranks && !ready; r++)
        bound[r] = false;
    hwloc_bitmap_free(allowed);
}
