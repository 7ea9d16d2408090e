// An architecture as tables: its names for persons and files, the fields of its configuration, its
// presets and its tensors. What it needs as code stands last in zr_architecture. docs/models.md
// says how to add one.
#ifndef ZR_MODEL_LM_TABLE_H
#define ZR_MODEL_LM_TABLE_H

#include "model/architecture.h"
#include <stddef.h>
#include <zero/rows.h>

// A field of zr_lm_numbers; and those that most models of Hugging Face have under these keys.
#define ZR_NUMBER(key_, kind_, member)                                                             \
    .key = key_, .kind = ZR_FIELD_##kind_, .at = offsetof(zr_lm_numbers, member)
#define ZR_SIZE(key_, member, most_)                                                               \
    {                                                                                              \
        ZR_NUMBER(key_, SIZE, member), .most = most_                                               \
    }
#define ZR_TILE_NUMBERS                                                                            \
    [ZR_ROLE_TILES] = {ZR_NUMBER("tiles_embedding", OPTIONAL, tiles.embedding),                    \
                       .most = ZR_MOST_WEIGHT_TILES},                                              \
    [ZR_ROLE_TILES + 1] = {ZR_NUMBER("tiles_attention", OPTIONAL, tiles.attention),                \
                           .most = ZR_MOST_WEIGHT_TILES},                                          \
    [ZR_ROLE_TILES + 2] = {ZR_NUMBER("tiles_mlp", OPTIONAL, tiles.mlp),                            \
                           .most = ZR_MOST_WEIGHT_TILES}
#define ZR_USUAL_NUMBERS                                                                           \
    [ZR_ROLE_VOCABULARY] = ZR_SIZE("vocab_size", vocab, INT32_MAX),                                \
    [ZR_ROLE_POSITIONS] = ZR_SIZE("max_position_embeddings", positions, 1 << 30),                  \
    [ZR_ROLE_WIDTH] = ZR_SIZE("hidden_size", width, 1 << 20),                                      \
    [ZR_ROLE_INNER] = ZR_SIZE("intermediate_size", inner, 1 << 22),                                \
    [ZR_ROLE_LAYERS] = ZR_SIZE("num_hidden_layers", layers, 1 << 16),                              \
    [ZR_ROLE_HEADS] = ZR_SIZE("num_attention_heads", heads, 1 << 16),                              \
    [ZR_ROLE_DEVIATION] = {ZR_NUMBER("initializer_range", DEVIATION, deviation),                   \
                           .otherwise = 0.02},                                                     \
    [ZR_ROLE_ATTENTION_DROPOUT] = {ZR_NUMBER("attention_dropout", PROBABILITY,                     \
                                             attention_dropout)},                                  \
    [ZR_ROLE_TIED] = {ZR_NUMBER("tie_word_embeddings", FLAG, tied)}, ZR_TILE_NUMBERS

// The weight and the bias of a norm or a linear, which have numbers that follow each other.
#define ZR_NORM_TENSORS(number, name)                                                              \
    [number] = {name ".weight", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},                             \
    [(number) + 1] = {name ".bias", ZERO_WIDE_STREAM}
#define ZR_LINEAR_TENSORS(number, name, out_, in_)                                                 \
    [number] = {name ".weight", ZERO_WIDE_##out_, ZERO_WIDE_##in_},                                \
    [(number) + 1] = {name ".bias", ZERO_WIDE_##out_}

typedef struct zr_lm_tensors {                   // names as in files
    const char *unit_prefix;                     // begins a block's name: "h."
    const char *layer_prefix;                    // begins the names of its tensors: "h."
    const char *table, *positions, *gain, *bias; // of embedding and final norm; NULL: none
    const char *head;                            // of a table of its own
    int count;                                   // of a block
    const zero_tensor_row *block;
} zr_lm_tensors;

typedef struct zr_lm_need { // a key of config.json with one value that can be computed exactly
    const char *key;
    const char *text, *synonym; // NULL if it is true or false, or if a text has one name
    bool value, otherwise;      // otherwise: the value of an absent key
    bool silent;                // it is not written
} zr_lm_need;

typedef struct zr_lm_preset {
    const char *name;
    int64_t layers, heads, kv_heads, head_dim, width, inner; // 0: see zr_lm_role
    int64_t vocab, context;
    float epsilon;
    bool tied;
    int variant; // of Llama
    zero_rope rope;
    int64_t window;
} zr_lm_preset;

typedef struct zr_lm_gguf { // a model_type in GGUF, as llama.cpp computes it
    const char *name;       // general.architecture
    unsigned options;       // zr_lm_option: what it may have
    // Its queries and keys turn by neighbours, not by halves: their rows lie in another order.
    bool neighbours;
    bool factors;  // it reads rope_freqs.weight, by which rotary frequencies are divided
    bool pattern;  // a window is that of the layers that a pattern names
    bool has_head; // it reads a head of its own even if that repeats the table
} zr_lm_gguf;

#define ZR_MOST_HEAD_DIM 1024 // if heads are rotated

typedef struct zr_architecture {
    const char *title;              // "GPT-2"
    const zr_model_type *types;     // the first stands for the architecture; the last has no name
    const char *file_prefix;        // before names in files, which may leave it out; NULL: none
    bool rms, gated, outputs_first; // as in zr_lm_shape
    bool rotary;                    // queries and keys turn; the role THETA lies in a zero_rope
    const zr_lm_field *fields;      // (ZR_ROLES)
    const zr_lm_need *needs;        // the last has no key
    const zr_lm_preset *presets;    // the last has no name
    zr_lm_tensors tensors;
    const zero_block_table *block; // its arithmetic
    const zr_lm_gguf *gguf;        // one for each of `types`; NULL: llama.cpp has none
    // (tensors.count) Names of a block's tensors in GGUF, after "blk.N."; those of the others are
    // the same for all.
    const char *const *gguf_names;
    // Code: NULL if the tables are enough.
    //
    // Sets every field of `out` to its usual value, before a preset does.
    void (*defaults)(zr_lm_config *out);
    // Sets what a preset has beyond the fields.
    void (*apply)(const zr_lm_preset *preset, zr_lm_config *out);
    // Read and write what the tables do not have; a failure stays in `file`.
    void (*read)(struct zr_model_json *file, zr_lm_config *out);
    void (*write)(const zr_lm_config *config, zr_json_writer *w);
    zero_status (*check)(const zr_lm_config *config, zero_error *error);
    void (*shape)(const zr_lm_config *config, zr_lm_shape *shape); // corrects it
} zr_architecture;

extern const zr_architecture zr_gpt2_architecture, zr_gpt2_erf_architecture, zr_llama_architecture,
    zr_neox_architecture;
const zr_architecture *zr_architecture_at(int kind); // 0 to ZR_LM_KINDS - 1

// Parses a preset and the fields after it. *vocab_given is true if the spec sets the vocabulary.
zero_status zr_lm_table_parse(const zr_architecture *of, const char *spec,
                              const zr_lm_preset *preset, zr_lm_config *out, bool *vocab_given,
                              zero_error *error);
void zr_lm_table_read(const zr_architecture *of, struct zr_model_json *file, zr_lm_config *out);
void zr_lm_table_write(const zr_architecture *of, const zr_lm_config *config, zr_json_writer *w);
zero_status zr_lm_table_check(const zr_architecture *of, const zr_lm_config *config,
                              zero_error *error);
zr_lm_shape zr_lm_table_shape(const zr_architecture *of, const zr_lm_config *config);

#endif
