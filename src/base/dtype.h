// Conversions between storage types. They round to nearest even.
#ifndef ZR_BASE_DTYPE_H
#define ZR_BASE_DTYPE_H

#include "base/errors.h"
#include <zero/tensor.h>

const char *zr_dtype_name(zero_dtype dtype); // "f32", "bf16", ...
float zr_bf16_to_f32(uint16_t bits);
uint16_t zr_f32_to_bf16(float value);
float zr_f16_to_f32(uint16_t bits);
uint16_t zr_f32_to_f16(float value);
// Convert ranges, as fast as this processor can (dtype_range.c). dtype is F32, BF16, F16, or U8,
// whose values are whole numbers from 0 to 255. The ranges must not overlap, but for F32 `from` may
// equal `to`.
void zr_widen(zero_dtype dtype, const void *from, int64_t count, float *to);
void zr_narrow(zero_dtype dtype, const float *from, int64_t count, void *to);
// The same bits, in portable code that every processor runs.
void zr_widen_portable(zero_dtype dtype, const void *from, int64_t count, float *to);
void zr_narrow_portable(zero_dtype dtype, const float *from, int64_t count,
                        void *to); // Returns how many finite values become infinite in fp16.
int64_t zr_f16_overflows(const float *values, int64_t count);

int64_t zr_tensor_elements(const zero_tensor *tensor);
size_t zr_tensor_bytes(const zero_tensor *tensor);

#endif
