// Llama and its variants as data: the configuration, tensors with Hugging Face's names and layout,
// and rotary frequencies. The arithmetic of their blocks is in layers/llama_block.c.
#ifndef ZR_MODEL_LLAMA_MODEL_H
#define ZR_MODEL_LLAMA_MODEL_H

#include "model/lm_build.h"

// The numbers of the tensors in the design. Biases, Q_NORM and K_NORM exist only if the
// configuration has them.
enum zr_llama_block_tensor {
    ZR_LLAMA_NORM1,
    ZR_LLAMA_Q_W,
    ZR_LLAMA_Q_B,
    ZR_LLAMA_K_W,
    ZR_LLAMA_K_B,
    ZR_LLAMA_V_W,
    ZR_LLAMA_V_B,
    ZR_LLAMA_Q_NORM,
    ZR_LLAMA_K_NORM,
    ZR_LLAMA_O_W,
    ZR_LLAMA_O_B,
    ZR_LLAMA_NORM2,
    ZR_LLAMA_GATE_W,
    ZR_LLAMA_GATE_B,
    ZR_LLAMA_UP_W,
    ZR_LLAMA_UP_B,
    ZR_LLAMA_DOWN_W,
    ZR_LLAMA_DOWN_B,
    ZR_LLAMA_TENSORS
};

enum zr_llama_field { // up to ZR_LLAMA_DROPOUT in the order of config.json
    ZR_LLAMA_VOCABULARY,
    ZR_LLAMA_POSITIONS,
    ZR_LLAMA_WIDTH,
    ZR_LLAMA_INNER,
    ZR_LLAMA_LAYERS,
    ZR_LLAMA_HEADS,
    ZR_LLAMA_KV_HEADS,
    ZR_LLAMA_HEAD_DIM,
    ZR_LLAMA_EPSILON,
    ZR_LLAMA_DEVIATION,
    ZR_LLAMA_DROPOUT,
    ZR_LLAMA_WINDOW,
    ZR_LLAMA_ORIGINAL,
    ZR_LLAMA_TILES,
    ZR_LLAMA_FIELDS = ZR_LLAMA_TILES + ZR_TILED // the tile counts are in no file
};
extern const zr_lm_field zr_llama_fields[ZR_LLAMA_FIELDS];

#define ZR_LLAMA_MOST_HEAD_DIM 1024

// Returns ZERO_ERR_USAGE, with the numbers, for fields that contradict each other.
zero_status zr_llama_check(const zero_llama_config *config, zero_error *error);
int64_t zr_llama_head_dim(const zero_llama_config *config);
int64_t zr_llama_kv_heads(const zero_llama_config *config);

const char *zr_llama_variant_name(zero_llama_variant variant); // "qwen2"
const char *zr_rope_scaling_name(zero_rope_scaling scaling);   // "llama3"
// Computes the angles in radians per position, (head_dim / 2), in fp32 as transformers does, and
// the factor by which cosines and sines are multiplied.
void zr_llama_frequencies(const zero_llama_config *config, float *frequency, float *factor);

// The functions of its architecture that have files of their own: llama_spec.c, llama_config.c,
// llama_design.c.
const char *zr_llama_preset_name(int i);
zero_status zr_llama_parse(const char *spec, int preset, zr_lm_config *out, bool *vocab_given,
                           zero_error *error);
void zr_llama_config_read(struct zr_model_json *file, zr_lm_config *out);
void zr_llama_config_write(const zr_lm_config *config, zr_json_writer *w);
void zr_llama_design(const zr_lm_config *config, zr_lm_design *out);

#endif
