// Rotary position embedding: its settings as config.json and messages have them (rope_config.c),
// and its frequencies (rope.c).
#ifndef ZR_MODEL_ROPE_H
#define ZR_MODEL_ROPE_H

#include "model/model_json.h"

const char *zr_rope_scaling_name(zero_rope_scaling scaling); // "llama3"
// Returns ZERO_ERR_USAGE for settings that contradict each other; theta is checked as a field.
// title: of the architecture.
zero_status zr_rope_check(const zero_rope *rope, const char *title, zero_error *error);
// Computes the angles in radians per position of the first `rotated` elements of a head,
// (rotated / 2), in fp32 as transformers does, and the factor by which cosines and sines are
// multiplied. positions: the model's.
void zr_rope_frequencies(const zero_rope *rope, int64_t rotated, int64_t positions,
                         float *frequency, float *factor);

// Reads the settings in all their spellings. *rope has what absent keys mean. rotated: the fraction
// of a head that turns, which a file may set; NULL if whole heads turn.
void zr_rope_read(zr_model_json *file, int64_t positions, zero_rope *rope, double *rotated);
// Writes rope_scaling; theta is a field.
void zr_rope_write(const zero_rope *rope, zr_json_writer *w);

#endif
