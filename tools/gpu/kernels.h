// What the kernels of the probe get: one structure by value each. A C compiler, g++, nvcc and NVRTC
// read this, and each checks the sizes.
#ifndef ZR_GPU_KERNELS_H
#define ZR_GPU_KERNELS_H

#ifdef __CUDACC_RTC__ // which has no headers of C
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef int int32_t;
typedef long int64_t;
#else
#include <stdint.h>
#endif

enum {
    PROBE_HEAD_WIDTH = 64,   // elements of a head of probe_attention
    PROBE_ROWS = 64,         // of queries that a block has, and of keys that it reads at once
    PROBE_CHUNK = 2048,      // elements that a block of probe_limbs adds up
    PROBE_LIMB_THREADS = 256 // of a block of probe_limbs
};

// Copies 16 bytes a thread, any grid.
typedef struct probe_copy_args {
    const void *from;
    void *to;
    int64_t words; // of 16 bytes
} probe_copy_args;

// Adds the squares of x to *sum as integers of 2^-20: the same bits with any grid.
typedef struct probe_limb_args {
    const float *x; // (count)
    int64_t count;
    int64_t *sum;
} probe_limb_args;

// Causal attention. Grid: (seq / PROBE_ROWS, batch * heads), 128 threads.
typedef struct probe_attention_args {
    const uint16_t *qkv; // (batch, seq, 3, heads, PROBE_HEAD_WIDTH) bf16
    uint16_t *out;       // (batch, seq, heads, PROBE_HEAD_WIDTH) bf16
    float *log_sums;     // (batch, heads, seq): log of the sum of exp of a row's scores
    int32_t seq;         // a multiple of PROBE_ROWS
    int32_t heads;
    float scale; // of the scores
    int32_t unused;
} probe_attention_args;

#ifdef __cplusplus
#define PROBE_ASSERT(condition) static_assert(condition, #condition)
#else
#define PROBE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
PROBE_ASSERT(sizeof(probe_copy_args) == 24);
PROBE_ASSERT(sizeof(probe_limb_args) == 24);
PROBE_ASSERT(sizeof(probe_attention_args) == 40);

#endif
