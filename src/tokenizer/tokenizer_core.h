// Tokenizers: text to ids and back.
//
//   bytes  256 ids
//   chars  the code points of the training text, sorted
//   BPE    merges in order of their rank, on bytes (GPT-2, Llama 3, Qwen, SmolLM2) or on characters
//          (Llama 2), as tokenizer.json, or vocab.json with merges.txt, says: the ids are those of
//          Hugging Face's `tokenizers` (docs/tokenizers.md: what is exact)
//
// All are written as a tokenizer.json that the library opens with the same ids. A tokenizer is read
// only: any number of threads may use one, each with an encoder of its own.
#ifndef ZR_TOKENIZER_TOKENIZER_CORE_H
#define ZR_TOKENIZER_TOKENIZER_CORE_H

#include "tokenizer/ids.h"

typedef enum zr_tokenizer_kind {
    ZR_TOKENIZER_BYTES,
    ZR_TOKENIZER_CHARS,
    ZR_TOKENIZER_BPE
} zr_tokenizer_kind;
typedef struct zr_tokenizer zr_tokenizer;

// TEXT: what spells a special token (<|endoftext|>) is text like any other. SPECIAL: it is that
// token.
// Added tokens that are not special are found in both, as by the library's `split_special_tokens`.
typedef enum zr_encode_mode { ZR_ENCODE_TEXT, ZR_ENCODE_SPECIAL } zr_encode_mode;

// bytes, chars. chars: `text` is scanned for its vocabulary; invalid UTF-8 is ZERO_ERR_DATA with
// `name` and the byte offset.
zero_status zr_tokenizer_create(zr_tokenizer_kind kind, const char *text, size_t length,
                                const char *name, zr_tokenizer **out, zero_error *error);
// From a directory (tokenizer.json, else vocab.json and merges.txt; tokenizer_config.json where it
// is there), or from a tokenizer.json.
// ZERO_ERR_UNSUPPORTED for what is not built, quoting it; ZERO_ERR_DATA for a file that contradicts
// itself.
zero_status zr_tokenizer_load(const char *path, zr_tokenizer **out, zero_error *error);
// By what a user writes: "bytes", "chars" (of `text`), or a path as above; ZERO_ERR_USAGE where it
// is none of these.
zero_status zr_tokenizer_open(const char *what, const char *text, size_t length, const char *name,
                              zr_tokenizer **out, zero_error *error);
// tokenizer.json and tokenizer_config.json, durable; of a loaded BPE the files it came from, byte
// for byte.
zero_status zr_tokenizer_save(const zr_tokenizer *tokenizer, const char *directory,
                              zero_error *error);
void zr_tokenizer_destroy(zr_tokenizer *tokenizer);

zr_tokenizer_kind zr_tokenizer_kind_of(const zr_tokenizer *tokenizer);
// "bytes", "chars", "byte-level BPE", "BPE"
const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
// the largest id + 1; a BPE may have ids that are no token
int32_t zr_tokenizer_vocabulary(const zr_tokenizer *tokenizer);
// of what decides ids: equal tokenizers have equal ones
uint64_t zr_tokenizer_fingerprint(const zr_tokenizer *tokenizer);
// the end of a text (eos_token), -1: it has none
int32_t zr_tokenizer_end(const zr_tokenizer *tokenizer);
// the beginning of a text (bos_token), -1: it has none
int32_t zr_tokenizer_begin(const zr_tokenizer *tokenizer);
// the token that is spelled so
bool zr_tokenizer_find(const zr_tokenizer *tokenizer, const char *content, int32_t *id);
bool zr_tokenizer_is_special(const zr_tokenizer *tokenizer, int32_t id);
// What the file's post-processor puts before and after a text (often a begin token). Encoding never
// adds it: who wants it does.
void zr_tokenizer_template(const zr_tokenizer *tokenizer, const int32_t **before, int *before_count,
                           const int32_t **after, int *after_count);

// Appends the ids of a whole text, mode TEXT. Unknown characters and invalid UTF-8 where the
// tokenizer has no token for them, and a text that its normalizer makes long beyond all proportion:
// ZERO_ERR_DATA, with `name` and, where one is at fault, the byte offset.
zero_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, size_t length,
                                const char *name, zr_ids *out, zero_error *error);
// An end such that the ids of text[first, end) and those of text[end, length) are, one after the
// other, those of the whole. The largest up to `limit` where there is one, else the next one after
// it; `length` where the text has no such place.
size_t zr_tokenizer_boundary(const zr_tokenizer *tokenizer, const char *text, size_t first,
                             size_t limit, size_t length);

// What encoding remembers from one call to the next (pieces seen before, room to work in), bounded;
// for one thread at a time.
typedef struct zr_encoder zr_encoder;
zero_status zr_encoder_create(const zr_tokenizer *tokenizer, zr_encoder **out, zero_error *error);
void zr_encoder_destroy(zr_encoder *encoder);
// Appends the ids of text[first, end). first > 0: it goes on where a boundary was, so nothing is
// put before it.
zero_status zr_encoder_append(zr_encoder *encoder, zr_encode_mode mode, const char *text,
                              size_t first, size_t end, const char *name, zr_ids *out,
                              zero_error *error);

// Appends the bytes of one token. They may form UTF-8 only together with later ones. An id that is
// none (a model may have more rows than the tokenizer has ids): U+FFFD.
void zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out);

// Text from ids as they come. What is appended is valid UTF-8 and never taken back: bytes that may
// become a character are held back, those that cannot are U+FFFD, as the library decodes the whole.
typedef struct zr_decoder {
    const zr_tokenizer *tokenizer;
    zr_buffer pending;
    int64_t tokens;
    int stripped;
    bool skip_special;
} zr_decoder;
void zr_decoder_begin(zr_decoder *decoder, const zr_tokenizer *tokenizer, bool skip_special);
void zr_decoder_push(zr_decoder *decoder, int32_t id, zr_buffer *out);
// what was held back; frees, and begins anew
void zr_decoder_end(zr_decoder *decoder, zr_buffer *out);

#endif
