// Weights in four or eight bits, as bitsandbytes stores them (QLoRA, arXiv 2305.14314, section 3;
// LLM.int8, arXiv 2208.07339, section 2), with the codes that it makes on a CPU. A weight is a
// matrix (out, in), row after row.
//
//   nf4    blocks of 64 elements of a row; the largest magnitude of a block is its scale, and an
//          element is one of 16 levels times the scale. Two codes a byte, the first in the upper
//          half. The scales are codes, too (double quantisation): less their mean over the matrix,
//          in groups of 256, each with the largest magnitude of its group.
//   int8   a row has a scale, the largest magnitude of its fp16 values; an element is a code from
//          -127 to 127, times the scale, by 127.
#ifndef ZR_BASE_QUANTISED_H
#define ZR_BASE_QUANTISED_H

#include <stdbool.h>
#include <stdint.h>

typedef enum zr_weight_format { ZR_WEIGHT_PLAIN, ZR_WEIGHT_NF4, ZR_WEIGHT_INT8 } zr_weight_format;

// Elements of a block of optimizer states in 8 bits (arXiv 2110.02861, section 2.1).
enum { ZR_STATE_BLOCK = 256 };

enum { ZR_NF4_BLOCK = 64, ZR_NF4_GROUP = 256, ZR_NF4_LEVELS = 16 };
extern const float zr_nf4_levels[ZR_NF4_LEVELS]; // ascending

const char *zr_weight_format_name(zr_weight_format format); // "nf4"; NULL for plain ones
// Returns false for a name that no format has.
bool zr_weight_format_find(const char *name, zr_weight_format *out);

// The bytes of a row's codes, of its scales, and of what all scales of a matrix share (nf4: their
// mean, then the largest magnitude of each group, in fp32).
int64_t zr_weight_code_bytes(zr_weight_format format, int64_t in);
int64_t zr_weight_scale_bytes(zr_weight_format format, int64_t in);
int64_t zr_weight_shared_bytes(zr_weight_format format, int64_t out, int64_t in);
// Returns how many scales a row has: a product reads one for each block of its elements.
int64_t zr_weight_row_scales(zr_weight_format format, int64_t in);

// Returns the scale of a block.
float zr_nf4_scale(const float *block);
// Writes the codes of a block: ZR_NF4_BLOCK / 2 bytes.
void zr_nf4_encode(const float *block, uint8_t *codes);
// Makes codes and the shared values of `count` scales, all that a matrix has.
void zr_nf4_encode_scales(const float *scales, int64_t count, uint8_t *codes, float *shared);
// Returns the scales of blocks [first, first + count) of a matrix; codes: of these.
void zr_nf4_decode_scales(const uint8_t *codes, const float *shared, int64_t first, int64_t count,
                          float *scales);

#define ZR_INT8_MOST 65504.0f // the largest number of fp16, through which values of int8 go
// Encodes a row of `in` elements, none larger than that; returns its scale.
float zr_int8_encode(const float *row, int64_t in, int8_t *codes);

// Decodes elements [first, first + count) of a row with the row's codes and scales (fp32). Rounds
// to nothing: what 16 bits cannot hold is rounded by the caller.
void zr_weight_decode(zr_weight_format format, const void *codes, const float *scales,
                      int64_t first, int64_t count, float *out);

#endif
