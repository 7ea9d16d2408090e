// GPT-2, built by the library on the unit interface.
#ifndef ZERO_GPT2_H
#define ZERO_GPT2_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

// GPT-2 as Hugging Face computes it; the fields have the names of config.json.
typedef struct zero_gpt2_config {
    size_t struct_size;
    int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner; // n_inner 0: 4 x n_embd
    float layer_norm_epsilon, initializer_range;
    float resid_pdrop, embd_pdrop, attn_pdrop;
    // Memory-centric tiling: the number of tiles into which the weights of the large operators are
    // cut, so that they can be gathered one by one; 0 or 1 if they are not cut.
    int64_t tiles_embedding; // wte by tokens, for the embedding and the head
    int64_t tiles_attention; // c_attn and c_proj of the attention, by outputs
    int64_t tiles_mlp;       // c_fc and c_proj of the MLP, by outputs
} zero_gpt2_config;

// Fills in the values of the published 124M model.
ZERO_API void zero_gpt2_defaults(zero_gpt2_config *config);
// Creates the model. Returns ZERO_ERR_USAGE if fields contradict each other (width not divisible by
// heads, ...).
ZERO_API zero_status zero_gpt2_create(const zero_gpt2_config *config, zero_model **out,
                                      zero_error *error);
ZERO_API void zero_gpt2_destroy(zero_model *model);

#ifdef __cplusplus
}
#endif
#endif
