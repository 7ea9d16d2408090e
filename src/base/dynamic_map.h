// Numbers from -1 or 0 to 1 as codes of eight bits: a dynamic map (arXiv 1511.04561) has a few
// values in a decade near zero, and more in each decade after it. The maps are bitsandbytes'.
#ifndef ZR_BASE_DYNAMIC_MAP_H
#define ZR_BASE_DYNAMIC_MAP_H

#include <stdint.h>

enum { ZR_DYNAMIC_CODES = 256 };
// What a code stands for; ascending.
extern const float zr_signed_map[ZR_DYNAMIC_CODES];   // from -0.993; code 127 is 0
extern const float zr_unsigned_map[ZR_DYNAMIC_CODES]; // from 0

// Returns the code of the nearest value, the lower one of two that are as near; 0 for a number that
// is none.
uint8_t zr_dynamic_code(const float map[ZR_DYNAMIC_CODES], float value);

#endif
