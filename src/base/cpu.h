// What this process may use of this machine. Pure look-ups; nothing is changed.
#ifndef ZR_BASE_CPU_H
#define ZR_BASE_CPU_H

#include "base/errors.h"

typedef struct zr_cpu_features {
    bool avx2_fma, avx512, avx512_bf16, amx_bf16, f16c, crc32;
} zr_cpu_features;
// avx2_fma: AVX2+FMA+F16C; avx512: F+BW+DQ+VL; amx_bf16: tiles, and the kernel's permission
// obtained (arch_prctl).
zr_cpu_features zr_cpu_detect(void);
// the kernel saves AMX's registers; of a processor with AVX2. Without CPUID, which is slow under a
// hypervisor
bool zr_cpu_keeps_tiles(void);
#define ZR_BOOT_ID 40
// names this boot of the machine's kernel; empty: unknown
void zr_boot_id(char out[static ZR_BOOT_ID]);
void zr_cpu_model(char *out, size_t size); // "AMD EPYC ..." from /proc/cpuinfo

typedef struct zr_cpu_budget {
    int cores;        // physical cores in the affinity mask
    int allowed;      // the smallest of mask, quota, SLURM_CPUS_PER_TASK
    char reason[128]; // "2 of 64: affinity mask", for the log
} zr_cpu_budget;
zr_cpu_budget zr_cpu_budget_get(void);
// bytes: the smallest of MemAvailable and the cgroup's limits (v1, v2)
int64_t zr_memory_available(char *reason, size_t size);
// bytes that this process has in memory, its own and of files such as libraries; 0: unknown
int64_t zr_memory_resident(void);

#endif
