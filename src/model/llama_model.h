// The numbers of the tensors of Llama and its variants, in the order of their design, and what
// their configuration needs beyond tables (llama_config.c).
#ifndef ZR_MODEL_LLAMA_MODEL_H
#define ZR_MODEL_LLAMA_MODEL_H

#include "model/lm_table.h"

// Biases, Q_NORM and K_NORM exist only if the configuration has them.
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

// Read and write what depends on the variant: values of absent keys, and facts for which there is
// no key.
void zr_llama_read(struct zr_model_json *file, zr_lm_config *out);
void zr_llama_write(const zr_lm_config *config, zr_json_writer *w);

// sliding.c: the keys of config.json that say which layers have a window. config->llama has its
// variant and number of layers already.
void zr_sliding_read(struct zr_model_json *file, zr_lm_config *config);
void zr_sliding_write(const zr_lm_config *config, zr_json_writer *w);

#endif
