// An architecture as tables: its names for persons and files, the fields of its configuration, its
// presets and its tensors. What it needs as code stands last in zr_architecture. docs/models.md
// says how to add one.
#ifndef ZR_MODEL_LM_TABLE_H
#define ZR_MODEL_LM_TABLE_H

#include "model/architecture.h"

typedef enum zr_wide { // sizes of tensors, and of what the rows of a block compute
    ZR_WIDE_NONE,
    ZR_WIDE_STREAM,  // C
    ZR_WIDE_QUERIES, // Q = heads x head_dim
    ZR_WIDE_KEYS,    // K = kv_heads x head_dim
    ZR_WIDE_PACKED,  // Q + 2K
    ZR_WIDE_INNER,   // F, of the MLP
    ZR_WIDE_HEAD     // head_dim
} zr_wide;

enum zr_tensor_flag {
    ZR_GAIN = 1,  // begins as 1; other vectors begin as 0
    ZR_DEPTH = 2, // its deviation is divided by sqrt(2 layers), because branches add up
    // Its outputs are the queries, then the keys, then the values, each cut for itself. Otherwise
    // they are cut together: the heads lie one after another.
    ZR_THREE_PARTS = 4
};

typedef struct zr_tensor_row { // of a block
    const char *name;          // in files, after the layer's prefix
    zr_wide out, in;           // a weight of a linear; a vector has no `in`
    unsigned flags;            // zr_tensor_flag
    unsigned only_with;        // zr_lm_option without which it does not exist; 0: it always does
} zr_tensor_row;

typedef struct zr_lm_tensors {                   // names as in files
    const char *unit_prefix;                     // begins a block's name: "h."
    const char *layer_prefix;                    // begins the names of its tensors: "h."
    const char *table, *positions, *gain, *bias; // of embedding and final norm; NULL: none
    const char *head;                            // of a table of its own
    int count;                                   // of a block
    const zr_tensor_row *block;
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

#define ZR_MOST_HEAD_DIM 1024 // if heads are rotated

typedef struct zr_architecture {
    const char *title;          // "GPT-2"
    const zr_model_type *types; // the first stands for the architecture; the last has no name
    const char *file_prefix;    // before a tensor's name in files, which may leave it out
    bool rms, gated, outputs_first, rotary; // as in zr_lm_shape; rotary: queries and keys turn
    const zr_lm_field *fields;              // (ZR_ROLES)
    const zr_lm_need *needs;                // the last has no key
    const zr_lm_preset *presets;            // the last has no name
    zr_lm_tensors tensors;
    size_t rope_at; // offset of zero_rope in its struct, if it is rotary
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

extern const zr_architecture zr_gpt2_architecture, zr_llama_architecture, zr_neox_architecture;

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
