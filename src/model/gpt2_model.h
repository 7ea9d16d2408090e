// GPT-2 as data: its configuration, and its units with Hugging Face's names and layout. The
// arithmetic of its blocks is in layers/gpt2_block.c.
#ifndef ZR_MODEL_GPT2_MODEL_H
#define ZR_MODEL_GPT2_MODEL_H

#include "model/lm_build.h"

enum zr_gpt2_block_tensor { // the numbers of the tensors in the design
    ZR_LN1_W,
    ZR_LN1_B,
    ZR_ATTN_W,
    ZR_ATTN_B,
    ZR_ATTN_PROJ_W,
    ZR_ATTN_PROJ_B,
    ZR_LN2_W,
    ZR_LN2_B,
    ZR_FC_W,
    ZR_FC_B,
    ZR_MLP_PROJ_W,
    ZR_MLP_PROJ_B,
    ZR_BLOCK_TENSORS
};

enum zr_gpt2_field { // in the order of config.json
    ZR_GPT2_VOCABULARY,
    ZR_GPT2_POSITIONS,
    ZR_GPT2_WIDTH,
    ZR_GPT2_LAYERS,
    ZR_GPT2_HEADS,
    ZR_GPT2_INNER,
    ZR_GPT2_EPSILON,
    ZR_GPT2_DEVIATION,
    ZR_GPT2_RESIDUAL_DROPOUT,
    ZR_GPT2_EMBEDDING_DROPOUT,
    ZR_GPT2_ATTENTION_DROPOUT,
    ZR_GPT2_TILES,
    ZR_GPT2_FIELDS = ZR_GPT2_TILES + ZR_TILED // the tile counts are in no file
};
extern const zr_lm_field zr_gpt2_fields[ZR_GPT2_FIELDS];

// Returns ZERO_ERR_USAGE, with the numbers, for fields that contradict each other.
zero_status zr_gpt2_check(const zero_gpt2_config *config, zero_error *error);
int64_t zr_gpt2_inner(const zero_gpt2_config *config); // width of the MLP; resolves n_inner = 0
// The functions of its architecture that have files of their own: gpt2_spec.c, gpt2_config.c,
// gpt2_design.c.
const char *zr_gpt2_preset_name(int i);
zero_status zr_gpt2_parse(const char *spec, int preset, zr_lm_config *out, bool *vocab_given,
                          zero_error *error);
void zr_gpt2_config_read(struct zr_model_json *file, zr_lm_config *out);
void zr_gpt2_config_write(const zr_lm_config *config, zr_json_writer *w);
void zr_gpt2_design(const zr_lm_config *config, zr_lm_design *out);

#endif
