// The limits that control groups (versions 1 and 2) set for this process. `root` is "" on a real
// machine; tests pass the root of a made-up tree.
#ifndef ZR_BASE_CGROUP_H
#define ZR_BASE_CGROUP_H

#include "base/errors.h"

double zr_cgroup_cpu_quota(const char *root); // CPUs; INFINITY where there is no quota
// Returns the bytes that may still be taken, INT64_MAX where there is no limit.
int64_t zr_cgroup_memory_left(const char *root);

typedef struct zr_cgroup_memory {
    // Bytes that a group as a whole may use: the smallest limit of all levels, INT64_MAX where
    // there is none.
    int64_t limit;
    // Processes in it that the kernel has killed so far because of its limit.
    int64_t kills;
} zr_cgroup_memory;
zr_cgroup_memory zr_cgroup_memory_look(const char *root);

#endif
