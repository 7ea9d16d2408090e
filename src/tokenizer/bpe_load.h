// Shared by the files that load a BPE.
#ifndef ZR_TOKENIZER_BPE_LOAD_H
#define ZR_TOKENIZER_BPE_LOAD_H

#include "base/json.h"
#include "tokenizer/bpe.h"

typedef struct zr_bpe_loader {
    const char *path;        // path of the file being read, for messages
    zr_tokenizer *tokenizer; // with an empty `bpe`
    zr_bpe *bpe;
    zr_buffer text; // becomes bpe->text
    // Number of tokens that the file lists. Ids that are far larger are refused.
    int64_t entries;
} zr_bpe_loader;

typedef struct zr_token_settings { // the files next to a tokenizer; NULL if a file is missing
    // tokenizer_config.json, special_tokens_map.json, added_tokens.json
    json_t *config, *special, *added;
} zr_token_settings;

// Returns a setting such as "eos_token". It is from special_tokens_map.json if the configuration
// has no added_tokens_decoder, which is newer; else it is from the configuration. NULL if neither
// has the key. The value may be null.
const json_t *zr_token_setting(const zr_token_settings *settings, const char *key);
// Returns the member for a file of that name; NULL if it is not one of the settings' files.
json_t **zr_token_settings_slot(zr_token_settings *settings, const char *file);
void zr_token_settings_free(zr_token_settings *settings);
// Returns whether transformers' LlamaTokenizer is named.
bool zr_token_class_is_llama(const zr_token_settings *settings);
// Returns the text of a string, or of an object with a "content"; NULL for any other value.
const char *zr_token_content(const json_t *named);

// Returns whether a setting of tokenizer.json is off: null, false, "", [] or absent.
bool zr_json_is_off(const json_t *setting);
// Returns the `type` of a part; "" if the part is null or absent, "?" if it has no type.
const char *zr_json_type(const json_t *part);
// Fails with a part that is not built, quoted.
zero_status zr_bpe_refuse_part(const zr_bpe_loader *loader, const char *role, const json_t *part,
                               zero_error *error);
zero_status zr_bpe_copy_text(const char *text, char **out, zero_error *error);
// Returns the string of {"pattern": {"String": "..."}}; NULL if there is none, or an empty one.
const char *zr_json_pattern(const json_t *part);
zero_status zr_fail_not_built(const char *path, const char *what, const char *value,
                              zero_error *error);

// Appends `text` to the model's text; *out is its place there.
zero_status zr_bpe_append_text(zr_bpe_loader *loader, const char *text, size_t length,
                               zr_text_span *out, zero_error *error);

// The steps of loading, in this order; the pipeline comes between vocabulary and finish.
// bpe_load.c
zero_status zr_bpe_load_vocabulary(zr_bpe_loader *loader, json_t *vocab, const json_t *added,
                                   zero_error *error);
// bpe_load_merges.c: the merges of a tokenizer.json
zero_status zr_bpe_load_merges(zr_bpe_loader *loader, const json_t *merges, zero_error *error);
// bpe_load_merges.c: the merges of a merges.txt
zero_status zr_bpe_load_merges_text(zr_bpe_loader *loader, const char *text, size_t length,
                                    zero_error *error);
// Finds the next merge of a merges.txt from *at on; false if there is none.
bool zr_merges_next_line(const char *text, size_t length, size_t *at, const char **line,
                         size_t *bytes);
// bpe_load.c: the settings of the model
zero_status zr_bpe_load_model(zr_bpe_loader *loader, const json_t *model, zero_error *error);
// bpe_finish.c: derives the tables that depend on all of this
zero_status zr_bpe_finish(zr_bpe_loader *loader, zero_error *error);
// bpe_normalizer.c: one part of the normalizer
zero_status zr_bpe_load_normalizer(zr_bpe_loader *loader, const json_t *part, zero_error *error);
// bpe_pipeline.c: for a tokenizer.json
zero_status zr_bpe_load_pipeline(zr_bpe_loader *loader, const json_t *root, zero_error *error);
// bpe_pipeline.c: for vocab.json and merges.txt; `prefix` puts a space before a text
zero_status zr_bpe_load_gpt2_pipeline(zr_bpe_loader *loader, bool prefix, zero_error *error);
// gpt2_files.c: loads everything from the two files and the settings. Sets the tokenizer's
// fingerprint to that of the settings which neither of the two files has.
zero_status zr_gpt2_load(zr_bpe_loader *loader, const zr_token_settings *settings, json_t *vocab,
                         const char *merges, size_t merges_length, zero_error *error);

// GPT-2's begin, end and unknown token if no file names them.
#define ZR_GPT2_END "<|endoftext|>"
// gpt2_files.c: makes the list of added tokens, as a tokenizer.json has it, in the order of their
// ids. *hash is a hash of the list.
zero_status zr_gpt2_added(const char *path, const zr_token_settings *settings, const json_t *vocab,
                          json_t **out, uint64_t *hash, zero_error *error);
// gpt2_json.c: writes a tokenizer.json with the content of the two files and the settings. `path`
// is for messages.
zero_status zr_gpt2_json(const char *path, const zr_token_settings *settings, const json_t *vocab,
                         const char *merges, size_t merges_length, zr_buffer *out,
                         zero_error *error);
// Returns whether zr_gpt2_json may have written it.
bool zr_gpt2_json_is(const char *text, size_t length);

// plain_json.c: loads a bytes or chars tokenizer. *out is NULL if the file describes neither, so
// that it is a BPE's.
zero_status zr_plain_load(const char *path, const json_t *root, zr_tokenizer **out,
                          zero_error *error);

#endif
