// Llama, and the architectures that differ from it in their configuration only: Mistral, Qwen2,
// Qwen3 (dense) and SmolLM2.
#ifndef ZERO_LLAMA_H
#define ZERO_LLAMA_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

// The model_type of config.json. It determines the defaults and the tensor names in files; the
// arithmetic follows from the fields alone.
#define ZERO_LLAMA_VARIANTS(X) X(llama) X(mistral) X(qwen2) X(qwen3)
typedef enum zero_llama_variant {
#define ZERO_LLAMA_ENUM(name) ZERO_LLAMA_##name,
    ZERO_LLAMA_VARIANTS(ZERO_LLAMA_ENUM)
#undef ZERO_LLAMA_ENUM
        ZERO_LLAMA_VARIANT_COUNT
} zero_llama_variant;

// How rotary frequencies are scaled for contexts longer than those of pretraining. Up to
// max_positions, "dynamic" equals "default".
#define ZERO_ROPE_SCALINGS(X) X(default) X(linear) X(dynamic) X(llama3) X(yarn)
typedef enum zero_rope_scaling {
#define ZERO_ROPE_ENUM(name) ZERO_ROPE_##name,
    ZERO_ROPE_SCALINGS(ZERO_ROPE_ENUM)
#undef ZERO_ROPE_ENUM
        ZERO_ROPE_SCALING_COUNT
} zero_rope_scaling;

// Rotary position embedding; each field is named as in transformers; 0 if not given.
typedef struct zero_rope {
    zero_rope_scaling scaling;
    double theta;                             // rope_theta
    double factor;                            // linear, dynamic, llama3, yarn
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow;              // yarn; 0 for 32 and 1
    // yarn: factor of the queries and keys; 0 for 0.1 ln(factor) + 1, or computed from mscale
    double attention_factor;
    double mscale, mscale_all_dim;  // yarn
    int64_t original_max_positions; // llama3, yarn; 0: max_positions
    int whole_range;                // yarn: 1 if "truncate" is false
} zero_rope;

// Llama as Hugging Face computes it: RMSNorm, rotary embedding over the two halves of a head,
// grouped-query attention, silu(gate) * up.
typedef struct zero_llama_config {
    size_t struct_size;
    zero_llama_variant variant;
    int64_t vocab_size, max_positions, hidden_size, intermediate_size, n_layer;
    int64_t n_head, n_kv_head; // query heads; key/value heads (divides n_head; 0: n_head)
    int64_t head_dim;          // even; 0: hidden_size / n_head
    // A position sees the last sliding_window positions up to itself, in every layer; 0: all of
    // them. A model of type llama has none in files: there it is the longest sequence.
    int64_t sliding_window;
    float rms_norm_eps, initializer_range, attention_dropout;
    zero_rope rope;
    int tied;                            // the head uses the token table (tie_word_embeddings)
    int qkv_bias, output_bias, mlp_bias; // of q, k, v; of o; of gate, up, down
    int qk_norm;                         // RMSNorm of each head's query and key, before rotation
    // Memory-centric tiling, as in zero_gpt2_config: the numbers of tiles of the token table; of q,
    // k, v, o; of gate, up, down. 0 or 1 if not cut.
    int64_t tiles_embedding, tiles_attention, tiles_mlp;
} zero_llama_config;

// Fills in a small Llama: 12 layers of width 768, 12 query heads, 4 key/value heads, 32,000 tokens,
// context 1,024, tied.
ZERO_API void zero_llama_defaults(zero_llama_config *config);
// Creates the model. Returns ZERO_ERR_USAGE if fields contradict each other (query heads not
// divisible by key/value heads, an odd head_dim, ...).
ZERO_API zero_status zero_llama_create(const zero_llama_config *config, zero_model **out,
                                       zero_error *error);
ZERO_API void zero_llama_destroy(zero_model *model);

#ifdef __cplusplus
}
#endif
#endif
