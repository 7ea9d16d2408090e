// Language models of any architecture behind one interface: the rest of the program holds a
// zr_lm_config and passes it to these functions.
//
// An architecture is a row of the array in architecture.c, and almost all of it is data
// (lm_table.h).
#ifndef ZR_MODEL_ARCHITECTURE_H
#define ZR_MODEL_ARCHITECTURE_H

#include "model/lm_fields.h"
#include "base/quantised.h"
#include "base/labels.h"
#include "model/lora.h"
#include "model/preference_spec.h"
#include <zero/gpt2.h>
#include <zero/llama.h>

typedef enum zr_lm_kind {
    ZR_LM_GPT2,
    ZR_LM_GPT2_ERF, // of the same model_type, by its activation_function
    ZR_LM_LLAMA,
    ZR_LM_NEOX,
    ZR_LM_KINDS,
    ZR_LM_ROWS = ZR_LM_KINDS // a program's own tables (zero/rows.h), which no file or spec names
} zr_lm_kind;

#define ZR_MOST_TOKEN_IDS 32

typedef struct zr_token_ids { // of config.json: one, several, or null
    bool given;  // false if the key is absent: readers then take the architecture's own
    bool listed; // written as a list, of any length
    int count;   // 0 if the value is null, or the list is empty
    int64_t at[ZR_MOST_TOKEN_IDS];
} zr_token_ids;

// Into how many tiles each kind of weight is cut; 0 or 1 if it is not cut.
typedef struct zr_tiles {
    int64_t embedding, attention, mlp;
} zr_tiles;
enum { ZR_TILED = 3 }; // number of fields of zr_tiles

#define ZR_MOST_WEIGHT_TILES 256

// The configuration of an architecture without a public struct, with what all such have: see the
// roles of the same names.
typedef struct zr_lm_numbers {
    int64_t vocab, positions, width, inner, layers, heads, kv_heads, head_dim;
    float epsilon, deviation, residual_dropout, embedding_dropout, attention_dropout;
    double rotated;
    zero_rope rope;
    int tied;
    zr_tiles tiles;
} zr_lm_numbers;

typedef struct zr_lm_rows { // of a program
    zr_lm_numbers numbers;
    const struct zr_architecture *architecture;
} zr_lm_rows;

// Which layers have the window of the role ZR_ROLE_WINDOW, if the model has one; and the keys of
// config.json that say so, kept so that they can be written again.
enum { ZR_MOST_LAYER_TYPES = 1024 };
typedef struct zr_sliding {
    bool used;                 // "use_sliding_window"
    bool has_window, has_full; // the file has the next two, though nothing may slide
    int64_t window;            // "sliding_window"; 0: null
    int64_t full;              // "max_window_layers": the first layers, which have no window
    int types;                 // entries of "layer_types", which then say it alone; 0: no such key
    uint64_t slides[ZR_MOST_LAYER_TYPES / 64]; // bit l: "sliding_attention" for layer l
} zr_sliding;

typedef struct zr_lm_config {
    zr_lm_kind kind;
    // The token ids that a file states, kept so that they can be written again.
    zr_token_ids bos, eos, pad;
    // The micro-batch has positions that begin anew in each document of a window, and attention
    // does not look across. Of a training: no config.json has it.
    bool documents;
    zr_sliding sliding;
    zr_lora lora; // of a training or of an adapter's directory: no config.json has it
    // How the weights of the blocks' linears are kept, which then do not train: of a training, too.
    zr_weight_format base;
    // Of a training: the loss of the head, and what micro-batches have for it (zero/preference.h).
    zr_preference preference;
    zr_labels labels; // of a model that classifies texts
    union {           // the architecture's struct
        zero_gpt2_config gpt2;
        zero_llama_config llama;
        zr_lm_numbers numbers;
        zr_lm_rows rows;
    };
} zr_lm_config;

// Tensors that only some configurations have.
enum zr_lm_option { ZR_QKV_BIAS = 1, ZR_OUTPUT_BIAS = 2, ZR_MLP_BIAS = 4, ZR_HEAD_NORMS = 8 };

typedef struct zr_model_type { // of config.json
    const char *name;          // "gpt2"
    const char *class_name;    // of transformers, "GPT2LMHeadModel"
} zr_model_type;

typedef struct zr_lm_shape { // the sizes and settings that every language model has
    const char *title;       // "GPT-2", for messages
    const zr_model_type *type;
    int64_t vocab;
    int64_t outputs;                   // rows of the head: tokens, or labels
    int64_t positions;                 // the longest window
    int64_t width, inner, layers;      // inner: of the MLP
    int64_t heads, kv_heads, head_dim; // heads: of queries; kv_heads: of keys and values
    int64_t rotated;                   // elements of a head that turn with the position
    float norm_epsilon, deviation;     // deviation: of a new model's weights
    bool rms;                          // norms without mean and bias
    bool gated;                        // an MLP with two products of its input
    bool outputs_first;                // weights lie as (out, in): see zr_linear
    bool tied;                         // the head uses the table of tokens
    float embedding_dropout, attention_dropout, residual_dropout;
    unsigned options; // zr_lm_option
} zr_lm_shape;

const struct zr_architecture *zr_architecture_of(const zr_lm_config *config);
const void *zr_lm_struct(const zr_lm_config *config); // the architecture's struct
// Computes the angles of a rotary model as zr_rope_frequencies does: (zr_lm_shape.rotated / 2).
void zr_lm_frequencies(const zr_lm_config *config, float *frequency, float *factor);
const zero_rope *zr_lm_rope(const zr_lm_config *config); // NULL if heads are not rotated
// Returns the preset with the name nearest to a wrong one; NULL if no name is near.
const char *zr_preset_nearest(const char *name);

// Parses "gpt2", "llama:layers=4,heads=8,kv_heads=2,...". *vocab_given is true if the spec fixes
// the vocabulary (a bare preset, or vocab=). Unknown fields and presets are refused, with the
// nearest name.
zero_status zr_lm_parse_spec(const char *spec, zr_lm_config *out, bool *vocab_given,
                             zero_error *error);

// Reads Hugging Face's config.json; its model_type names the architecture. Every setting that we do
// not compute exactly is refused by its key.
zero_status zr_lm_config_read(const char *path, zr_lm_config *out, zero_error *error);
// Reads the config.json in `directory`.
zero_status zr_lm_config_read_in(const char *directory, zr_lm_config *out, zero_error *error);
void zr_lm_config_write(const zr_lm_config *config, zr_buffer *out);

// Returns ZERO_ERR_USAGE, with the numbers, for fields that contradict each other.
zero_status zr_lm_check(const zr_lm_config *config, zero_error *error);
zr_lm_shape zr_lm_shape_of(const zr_lm_config *config);
// Returns how many positions up to itself a position of a layer sees; 0: all up to itself.
int64_t zr_lm_window(const zr_lm_config *config, int layer);
void zr_lm_set_vocabulary(zr_lm_config *config, int64_t tokens);
// Sets the token ids of another tokenizer; -1 if it has no such token.
void zr_lm_set_tokens(zr_lm_config *config, int64_t bos, int64_t eos);
// Makes every layer `times` as wide, with as many more heads, and sets the number of layers.
void zr_lm_enlarge(zr_lm_config *config, int64_t times, int64_t layers);
zr_tiles zr_lm_tiles(const zr_lm_config *config);
void zr_lm_set_tiles(zr_lm_config *config, const zr_tiles *tiles);

// The files of a model's directory as Hugging Face names them. The tokenizer's files are listed in
// tokenizer/tokenizer_files.c.
#define ZR_MODEL_CONFIG "config.json"
#define ZR_GENERATION_CONFIG "generation_config.json"
#define ZR_CHAT_TEMPLATE "chat_template.jinja"
#define ZR_MODEL_WEIGHTS "model.safetensors"
#define ZR_MODEL_INDEX "model.safetensors.index.json" // of weights in several files

// From model_compare.c. Whether two configurations describe one model: every field of config.json
// as we write it counts, except the few that do not change the arithmetic.
//
// Names and shapes of tensors are not enough, because heads, rotary settings, epsilons, windows and
// dropout do not affect them.
typedef uint32_t zr_lm_changes; // one bit for each name of a change that may be allowed
// Parses names with commas between them, such as "dropout"; NULL and "" mean no change. An unknown
// name is ZERO_ERR_USAGE, with a list of the known ones.
zero_status zr_lm_changes_parse(const char *names, zr_lm_changes *out, zero_error *error);

typedef struct zr_lm_difference {
    bool found;
    char key[40];
    char values[2][160]; // as JSON; "none" if a file has no such field
    const char *change;  // the name of the change that would allow it; NULL if no change would
} zr_lm_difference;

// Finds the first field that differs and is not among `allowed`. Can fail with ZERO_ERR_MEMORY.
zero_status zr_lm_compare(const zr_lm_config *a, const zr_lm_config *b, zr_lm_changes allowed,
                          zr_lm_difference *out, zero_error *error);
// The same for the object of zr_lm_config_pack.
zero_status zr_lm_compare_saved(const json_t *saved, const zr_lm_config *config,
                                zr_lm_changes allowed, zr_lm_difference *out, zero_error *error);

// Turn a configuration into the object of config.json, and back. `name` is the origin, for
// messages.
json_t *zr_lm_config_pack(const zr_lm_config *config); // NULL if there is no memory
zero_status zr_lm_config_unpack(const json_t *object, const char *name, zr_lm_config *out,
                                zero_error *error);

#endif
