// What the control groups of this process allow, version 1 and 2. `root` is "" for this machine;
// tests give a made-up tree.
#ifndef ZR_BASE_CGROUP_H
#define ZR_BASE_CGROUP_H

#include "base/errors.h"

double zr_cgroup_cpu_quota(const char *root); // CPUs; INFINITY where there is no quota
// bytes that may still be taken; INT64_MAX where there is no limit
int64_t zr_cgroup_memory_left(const char *root);

typedef struct zr_cgroup_memory {
    // bytes that a group as a whole may have, the least of all levels; INT64_MAX: none
    int64_t limit;
    int64_t kills; // processes that the kernel has ended in it so far because of its limit
} zr_cgroup_memory;
zr_cgroup_memory zr_cgroup_memory_look(const char *root);

#endif
