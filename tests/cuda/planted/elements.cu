// Kernels that test_gates.sh must refuse: `add` loads four bytes at a time, `planted_local` has an
// array in local memory, and `planted_mma_64` has no products of tensor cores.
#include "kernel.h"

using namespace zr;

ZR_GLOBAL(add, 256)
{
    for (int64_t i = thread_number(); i < a.n; i += thread_count())
        ((float *)a.out)[i] = ((const float *)a.x)[i] + ((const float *)a.branch)[i];
}

extern "C" __global__ void zr_planted_local(float *x, const int *order)
{
    float kept[32];
    for (int i = 0; i < 32; i++)
        kept[i] = x[i * 32 + threadIdx.x];
    for (int i = 0; i < 32; i++)
        x[i * 32 + threadIdx.x] = kept[order[i] & 31];
}

extern "C" __global__ void zr_planted_mma_64(float *x) { x[threadIdx.x] *= 2; }
