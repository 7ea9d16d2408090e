// Conversions between storage types; round to nearest even. Portable; compute/cpu has the fast ones.
#ifndef ZR_BASE_DTYPE_H
#define ZR_BASE_DTYPE_H

#include "base/status.h"
#include <zero/model.h>

const char *zr_dtype_name(zero_dtype dtype); // "f32", "bf16", ...
float zr_bf16_to_f32(uint16_t bits);
uint16_t zr_f32_to_bf16(float value);
float zr_f16_to_f32(uint16_t bits);
uint16_t zr_f32_to_f16(float value);
int64_t zr_tensor_elements(const zero_tensor *tensor);
size_t zr_tensor_bytes(const zero_tensor *tensor);

#endif
