// How many cores and bytes this process may take, from its CPU mask and from limits, with the
// reason in words.
#define _GNU_SOURCE
#include "base/cpu.h"

#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct core_count {
    // Physical cores that the affinity mask touches.
    int bound;
    int total; // cores of the machine
} core_count;

// Counts objects of `type`: cores, or processing units where the machine does not tell which of
// them share a core.
static core_count count_objects(hwloc_topology_t topology, hwloc_const_cpuset_t mask,
                                hwloc_obj_type_t type)
{
    core_count count = {0};
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object))) {
        count.total++;
        count.bound += hwloc_bitmap_intersects(object->cpuset, mask);
    }
    return count;
}

static core_count count_bound(hwloc_topology_t topology)
{
    core_count count = {0};
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (!mask)
        return count;
    if (hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_THREAD))
        hwloc_bitmap_fill(mask);
    count = count_objects(topology, mask, HWLOC_OBJ_CORE);
    if (!count.bound)
        count = count_objects(topology, mask, HWLOC_OBJ_PU);
    hwloc_bitmap_free(mask);
    return count;
}

static core_count count_cores(void)
{
    core_count count = {0};
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) == 0) {
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
        if (hwloc_topology_load(topology) == 0)
            count = count_bound(topology);
        hwloc_topology_destroy(topology);
    }
    if (count.bound > 0)
        return count;
    int online = (int)ZR_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    return (core_count){.bound = online, .total = online};
}

static int slurm_cpus(void)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    return text && *end == 0 && value > 0 && value < 1 << 20 ? (int)value : 0;
}

zr_cpu_budget zr_cpu_budget_get(void)
{
    core_count count = count_cores();
    double quota = zr_cgroup_cpu_quota("");
    int slurm = slurm_cpus();
    zr_cpu_budget budget = {.cores = count.bound, .allowed = count.bound};
    const char *why = count.bound < count.total ? "affinity mask" : "all physical cores";
    char words[64];
    if (quota < budget.allowed) { // a quota is rounded down
        budget.allowed = ZR_MAX((int)quota, 1);
        snprintf(words, sizeof words, "cgroup quota of %.2f CPUs", quota);
        why = words;
    }
    if (slurm && slurm < budget.allowed) {
        budget.allowed = slurm;
        why = "SLURM_CPUS_PER_TASK";
    }
    snprintf(budget.reason, sizeof budget.reason, "%d of %d: %s", budget.allowed, count.total, why);
    return budget;
}

// Reads the line "NAME: N kB" of a file of /proc. Returns bytes; -1 if there is no such line.
static int64_t proc_bytes(const char *path, const char *name)
{
    FILE *stream = fopen(path, "re");
    if (!stream)
        return -1;
    char line[256];
    long long kilobytes = -1;
    size_t length = strlen(name);
    while (kilobytes < 0 && fgets(line, sizeof line, stream))
        if (strncmp(line, name, length) || sscanf(line + length, ": %lld kB", &kilobytes) != 1)
            kilobytes = -1;
    fclose(stream);
    return kilobytes < 0 ? -1 : (int64_t)kilobytes * 1024;
}

int64_t zr_memory_available(char *reason, size_t size)
{
    int64_t available = proc_bytes("/proc/meminfo", "MemAvailable"),
            machine = available < 0 ? INT64_MAX : available, group = zr_cgroup_memory_left("");
    if (reason)
        snprintf(reason, size, "%s",
                 group < machine ? "limit of the control group"
                                 : "memory available on this machine");
    return ZR_MIN(machine, group);
}

int64_t zr_memory_resident(void)
{
    int64_t own = proc_bytes("/proc/self/status", "RssAnon"),
            files = proc_bytes("/proc/self/status", "RssFile");
    return own < 0 || files < 0 ? 0 : own + files;
}
