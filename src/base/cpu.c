// The processor: its instruction sets by CPUID, and whether the kernel saves the registers that
// they need.
#define _GNU_SOURCE
#include "base/cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// Returns the register states that the kernel saves. Without them the instructions fault, whatever
// CPUID says.
static uint64_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all_bits(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

// Requests the tile registers, which Linux gives only to a process that requests them.
static bool tiles_permitted(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

enum { YMM_STATE = 0x6, ZMM_STATE = 0xe6, TILE_STATE = 0x60000 };

bool zr_cpu_keeps_tiles(void) { return all_bits(saved_states(), TILE_STATE); }

zr_cpu_features zr_cpu_detect(void)
{
    uint32_t eax, ebx, ecx, edx, leaf7_ebx = 0, leaf7_edx = 0, bf16 = 0;
    zr_cpu_features have = {0};
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        return have;
    uint64_t states = ecx & bit_OSXSAVE ? saved_states() : 0;
    have.crc32 = ecx & bit_SSE4_2;
    have.f16c = (ecx & bit_F16C) && all_bits(states, YMM_STATE);
    bool fma = ecx & bit_FMA;
    if (__get_cpuid_count(7, 0, &eax, &leaf7_ebx, &ecx, &leaf7_edx) && eax >= 1)
        __get_cpuid_count(7, 1, &bf16, &ebx, &ecx, &edx);
    have.avx2_fma = have.f16c && fma && (leaf7_ebx & bit_AVX2);
    const uint32_t wide = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; // F, DQ, BW, VL
    have.avx512 = have.avx2_fma && all_bits(leaf7_ebx, wide) && all_bits(states, ZMM_STATE);
    have.avx512_bf16 = have.avx512 && (bf16 & 1u << 5);
    const uint32_t tiles = 1u << 22 | 1u << 24; // AMX-BF16, AMX-TILE
    have.amx_bf16 = have.avx512_bf16 && all_bits(leaf7_edx, tiles) &&
                    all_bits(states, TILE_STATE) && tiles_permitted();
    return have;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

bool zr_cpu_keeps_tiles(void) { return false; }

zr_cpu_features zr_cpu_detect(void)
{
    const unsigned long hwcap_crc32 = 1ul << 7;
    return (zr_cpu_features){.crc32 = getauxval(AT_HWCAP) & hwcap_crc32};
}

#else

bool zr_cpu_keeps_tiles(void) { return false; }

zr_cpu_features zr_cpu_detect(void) { return (zr_cpu_features){0}; }

#endif

// Returns the text after "KEY :" in a line, or NULL.
static const char *line_value(char *line, const char *key)
{
    if (strncmp(line, key, strlen(key)))
        return NULL;
    char *value = strchr(line, ':');
    if (!value)
        return NULL;
    value += 1 + strspn(value + 1, " \t");
    value[strcspn(value, "\n")] = 0;
    return *value ? value : NULL;
}

void zr_boot_id(char out[static ZR_BOOT_ID])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(out, 0, ZR_BOOT_ID);
    if (!file)
        return;
    out[fread(out, 1, ZR_BOOT_ID - 1, file)] = 0;
    fclose(file);
}

void zr_cpu_model(char *out, size_t size)
{
    struct utsname machine;
    snprintf(out, size, "%s processor", uname(&machine) ? "unknown" : machine.machine);
    FILE *stream = fopen("/proc/cpuinfo", "re");
    if (!stream)
        return;
    char line[512];
    while (fgets(line, sizeof line, stream)) {
        const char *value = line_value(line, "model name");
        if (value) {
            snprintf(out, size, "%s", value);
            break;
        }
    }
    fclose(stream);
}
