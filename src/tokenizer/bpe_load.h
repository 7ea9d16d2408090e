// What the files that read a BPE share while it is made.
#ifndef ZR_TOKENIZER_BPE_LOAD_H
#define ZR_TOKENIZER_BPE_LOAD_H

#include "base/json.h"
#include "tokenizer/bpe.h"

typedef struct zr_bpe_loader {
    const char *path;        // of the file being read, for messages
    zr_tokenizer *tokenizer; // with an empty `bpe`
    zr_bpe *bpe;
    zr_buffer text; // behind bpe->text
    // tokens that the file lists: ids beyond all proportion to them are refused
    int64_t entries;
} zr_bpe_loader;

typedef struct zr_token_settings { // what stands next to a tokenizer; NULL: the file is not there
    // tokenizer_config.json, special_tokens_map.json, added_tokens.json
    json_t *config, *special, *added;
} zr_token_settings;

// "eos_token" and the like: of special_tokens_map.json where the configuration has no
// added_tokens_decoder, which is newer, else of the configuration. NULL: neither has the key; it
// may be null.
const json_t *zr_token_setting(const zr_token_settings *settings, const char *key);
// of a string, or of an object with a "content"; NULL: it is neither
const char *zr_token_content(const json_t *named);

// tokenizer.json: null, false, "", [] and absence all say that a setting is off.
bool zr_json_is_off(const json_t *setting);
// The `type` of a part, "" where the part is null or absent, "?" where it has none.
const char *zr_json_type(const json_t *part);
zero_status zr_fail_not_built(const char *path, const char *what, const char *value,
                              zero_error *error);

// Puts `text` at the end of the model's, in which *out is it.
zero_status zr_bpe_append_text(zr_bpe_loader *loader, const char *text, size_t length,
                               zr_text_span *out, zero_error *error);

// bpe_load.c, bpe_load_merges.c, bpe_finish.c. In this order; the pipeline lies between vocabulary
// and finish.
zero_status zr_bpe_load_vocabulary(zr_bpe_loader *loader, json_t *vocab, const json_t *added,
                                   zero_error *error);
// of tokenizer.json
zero_status zr_bpe_load_merges(zr_bpe_loader *loader, const json_t *merges, zero_error *error);
// of merges.txt
zero_status zr_bpe_load_merges_text(zr_bpe_loader *loader, const char *text, size_t length,
                                    zero_error *error);
// its settings
zero_status zr_bpe_load_model(zr_bpe_loader *loader, const json_t *model, zero_error *error);
zero_status zr_bpe_finish(zr_bpe_loader *loader, zero_error *error); // what follows from all of it
// pipeline.c
zero_status zr_pipeline_load(zr_bpe_loader *loader, const json_t *root, zero_error *error);
// of vocab.json and merges.txt; prefix: a space before a text
zero_status zr_pipeline_gpt2(zr_bpe_loader *loader, bool prefix, zero_error *error);
// gpt2_files.c: all of it. Sets the tokenizer's fingerprint to that of what stands in neither of
// the two files.
zero_status zr_gpt2_load(zr_bpe_loader *loader, const zr_token_settings *settings, json_t *vocab,
                         const char *merges, size_t merges_length, zero_error *error);

// plain_json.c: bytes or chars; *out NULL: the file describes neither, and is a BPE's.
zero_status zr_plain_load(const char *path, const json_t *root, zr_tokenizer **out,
                          zero_error *error);

#endif
