// The machine's cores, as hwloc finds them.
#ifndef ZR_BASE_TOPOLOGY_H
#define ZR_BASE_TOPOLOGY_H

#include <hwloc.h>

// Returns the topology of this machine, with cores that this process may not use; NULL where it
// cannot be found. It is found at the first call, which takes milliseconds, and stays until the
// process ends: to be read only, by any thread.
hwloc_topology_t zr_topology(void);

#endif
