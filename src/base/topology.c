#include "base/topology.h"

#include <pthread.h>
#include <stddef.h>

static hwloc_topology_t found;

static void find(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return;
    if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
        hwloc_topology_load(topology) == 0)
        found = topology;
    else
        hwloc_topology_destroy(topology);
}

hwloc_topology_t zr_topology(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return found;
}
