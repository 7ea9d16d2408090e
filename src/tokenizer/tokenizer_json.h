// Writes the files of a tokenizer as Hugging Face's `tokenizers` library and transformers read
// them. Of a tokenizer.json the caller writes the rest itself: "vocab" and "merges" of the model,
// and the ends.
#ifndef ZR_TOKENIZER_TOKENIZER_JSON_H
#define ZR_TOKENIZER_TOKENIZER_JSON_H

#include "base/json_writer.h"

typedef struct zr_tokenizer_json {
    // The added tokens, as a tokenizer.json lists them; a flag that is absent is false. NULL: none.
    const json_t *added;
    bool added_lines;  // each of them stands on its own line
    bool byte_level;   // the model spells bytes in GPT-2's alphabet; else it has characters
    bool prefix;       // a space before a text belongs to it
    bool splits;       // GPT-2's regular expression splits a text
    const char *begin; // the token that is put before a text; NULL: none
    int64_t begin_id;
} zr_tokenizer_json;

// Writes the version, the added tokens and the normalizer. The writer is compact.
void zr_tokenizer_json_begin(zr_json_writer *w, const zr_tokenizer_json *of);
// Writes what stands around the model, and the model up to its vocabulary.
void zr_tokenizer_json_parts(zr_json_writer *w, const zr_tokenizer_json *of);
// Writes an entry of the vocabulary, on its own line.
void zr_tokenizer_json_token(zr_json_writer *w, const char *token, int32_t id);
// Writes a tokenizer_config.json. `end` is the token that begins and ends a text; NULL: none.
void zr_tokenizer_json_config(const char *end, zr_buffer *out);

#endif
