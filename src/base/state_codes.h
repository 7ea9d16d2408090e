// Blocks of optimizer states in 8 bits (arXiv 2110.02861): an element is a value of a map, for
// which its code stands, times the block's scale. Checkpoints have them as fp32 numbers.
#ifndef ZR_BASE_STATE_CODES_H
#define ZR_BASE_STATE_CODES_H

#include "base/dynamic_map.h"

// out[i] = map[codes[i]] * scale, for n elements.
void zr_state_block_widen(const float map[ZR_DYNAMIC_CODES], const uint8_t *codes, float scale,
                          int64_t n, float *out);
// Writes the codes (n) of values and returns their scale. Of values that zr_state_block_widen gave
// it finds codes and a scale that give the same values again, bit for bit; of others the scale is
// the largest magnitude, and a code the nearest. n: at most ZR_STATE_BLOCK.
float zr_state_block_narrow(const float map[ZR_DYNAMIC_CODES], const float *values, int64_t n,
                            uint8_t *codes);

#endif
