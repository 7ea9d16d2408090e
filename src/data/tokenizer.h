// Tokenizers: bytes (256 ids) and chars (the code points of the training text, sorted). Both are written as a tokenizer.json that
// Hugging Face's library opens with the same ids, and read back from it.
#ifndef ZR_DATA_TOKENIZER_H
#define ZR_DATA_TOKENIZER_H

#include "base/alloc.h"

typedef enum zr_tokenizer_kind { ZR_TOKENIZER_BYTES, ZR_TOKENIZER_CHARS } zr_tokenizer_kind;
typedef struct zr_tokenizer zr_tokenizer;

// chars: `text` is scanned for its vocabulary; invalid UTF-8 is ZERO_ERR_DATA with `name` and the byte offset.
zero_status zr_tokenizer_create(zr_tokenizer_kind kind, const char *text, size_t length, const char *name, zr_tokenizer **out, zero_error *error);
// From a model directory (tokenizer.json). ZERO_ERR_UNSUPPORTED for kinds that are not built yet, naming them.
zero_status zr_tokenizer_load(const char *directory, zr_tokenizer **out, zero_error *error);
// tokenizer.json and tokenizer_config.json, durable.
zero_status zr_tokenizer_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error);
void zr_tokenizer_destroy(zr_tokenizer *tokenizer);

zr_tokenizer_kind zr_tokenizer_kind_of(const zr_tokenizer *tokenizer);
const char *zr_tokenizer_name(const zr_tokenizer *tokenizer); // "bytes", "chars"
int32_t zr_tokenizer_vocabulary(const zr_tokenizer *tokenizer);

// ids must have room for `length` tokens; *count are written. Unknown characters and invalid UTF-8: ZERO_ERR_DATA, name, byte offset.
zero_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, size_t length, const char *name, int32_t *ids, int64_t *count,
                                zero_error *error);
// The same for text[first, end), whose ends are character boundaries; offsets in messages count from `text`.
zero_status zr_tokenizer_encode_part(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t end, const char *name, int32_t *ids,
                                     int64_t *count, zero_error *error);
// Appends the text of one token. Bytes may form UTF-8 only together with later ones. An id that is none (a model may have more
// rows than the tokenizer has ids): U+FFFD.
void zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out);

#endif
