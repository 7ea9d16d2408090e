// A libcuda.so.1 that has all functions, none of which does anything, and is of CUDA 11.8.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#include "driver_api.h"

#define cuDriverGetVersion nothing_else
#define STUB(name, older, parameters)                                                              \
    unsigned name(void);                                                                           \
    unsigned name(void) { return 0; }
ZR_CUDA_FUNCTIONS(STUB)
#undef cuDriverGetVersion

unsigned cuDriverGetVersion(int *version);
unsigned cuDriverGetVersion(int *version)
{
    *version = 11080;
    return 0;
}
