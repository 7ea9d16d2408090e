// What this process may use of this machine: instructions, cores and memory. These are look-ups
// that change nothing, except that zr_cpu_detect requests the tile registers from the kernel.
#ifndef ZR_BASE_CPU_H
#define ZR_BASE_CPU_H

#include "base/errors.h"

typedef struct zr_cpu_features {
    bool avx2_fma, avx512, avx512_bf16, amx_bf16, f16c, crc32;
} zr_cpu_features;
// avx2_fma: AVX2+FMA+F16C; avx512: F+BW+DQ+VL; amx_bf16: tiles, and the kernel's permission
// obtained (arch_prctl).
zr_cpu_features zr_cpu_detect(void);
// Returns whether the kernel saves AMX's registers. The processor must have AVX2. This does not ask
// CPUID, which is slow under a hypervisor.
bool zr_cpu_keeps_tiles(void);
#define ZR_BOOT_ID 40
// Writes an id of this boot of the machine's kernel; "" if unknown.
void zr_boot_id(char out[static ZR_BOOT_ID]);
void zr_cpu_model(char *out, size_t size); // "AMD EPYC ..." from /proc/cpuinfo

typedef struct zr_cpu_budget {
    int cores;        // physical cores in the affinity mask
    int allowed;      // the smallest of mask, quota, SLURM_CPUS_PER_TASK
    char reason[128]; // "2 of 64: affinity mask", for the log
} zr_cpu_budget;
zr_cpu_budget zr_cpu_budget_get(void);
// Returns bytes: the smallest of MemAvailable and the limits of control groups (v1, v2).
int64_t zr_memory_available(char *reason, size_t size);
// Returns the bytes that this process has in memory, including mapped files such as libraries; 0 if
// unknown.
int64_t zr_memory_resident(void);

// The limits that control groups (versions 1 and 2) set for this process. `root` is "" on a real
// machine; tests pass the root of a made-up tree.
typedef struct zr_cgroup_memory {
    // Bytes that a group as a whole may use: the smallest limit of all levels, INT64_MAX if there
    // is none.
    int64_t limit;
    // Processes of the group that the kernel has killed so far because of its limit.
    int64_t kills;
} zr_cgroup_memory;

double zr_cgroup_cpu_quota(const char *root); // CPUs; INFINITY if there is no quota
// Returns the bytes that may still be taken, INT64_MAX if there is no limit.
int64_t zr_cgroup_memory_left(const char *root);
zr_cgroup_memory zr_cgroup_memory_look(const char *root);

#endif
