// Tokenizers: text to ids and back.
//
//   bytes  256 ids
//   chars  the code points of the training text, sorted
//   BPE    merges in order of their rank, on bytes (GPT-2, Llama 3, Qwen, SmolLM2) or on characters
//          (Llama 2), as in tokenizer.json, or vocab.json and merges.txt: the ids are those of
//          Hugging Face's `tokenizers` (docs/tokenizers.md: what is exact); or as in
//          SentencePiece's tokenizer.model. Unigram, which has scores in place of merges, counts
//          as one
//
// All are written as a tokenizer.json that the library opens with the same ids. A tokenizer is only
// read, so any number of threads may use one, each with an encoder of its own.
#ifndef ZR_TOKENIZER_TOKENIZER_H
#define ZR_TOKENIZER_TOKENIZER_H

#include "base/alloc.h"

// A growing list of ids. Its error is sticky, as in zr_buffer: check `failed` once at the end.
typedef struct zr_ids {
    int32_t *at; // (count)
    int64_t count, capacity;
    bool failed;
} zr_ids;

// Makes room for `more` ids. Returns false if there is no memory, and sets `failed`.
bool zr_ids_reserve(zr_ids *ids, int64_t more);
void zr_ids_free(zr_ids *ids);

static inline void zr_ids_append(zr_ids *ids, int32_t id)
{
    if (ids->count < ids->capacity || zr_ids_reserve(ids, 1))
        ids->at[ids->count++] = id;
}

typedef enum zr_tokenizer_kind {
    ZR_TOKENIZER_BYTES,
    ZR_TOKENIZER_CHARS,
    ZR_TOKENIZER_BPE
} zr_tokenizer_kind;
typedef struct zr_tokenizer zr_tokenizer;

// TEXT: the spelling of a special token (<|endoftext|>) is encoded as ordinary text. SPECIAL: it is
// that token. Added tokens that are not special are found in both modes, as with the library's
// `split_special_tokens`.
typedef enum zr_encode_mode { ZR_ENCODE_TEXT, ZR_ENCODE_SPECIAL } zr_encode_mode;

// Makes a bytes or chars tokenizer. For chars, `text` is scanned for the vocabulary; invalid UTF-8
// is ZERO_ERR_DATA with `name` and the byte offset.
zero_status zr_tokenizer_create(zr_tokenizer_kind kind, const char *text, size_t length,
                                const char *name, zr_tokenizer **out, zero_error *error);
// Loads a directory (tokenizer.json, else vocab.json and merges.txt, else tokenizer.model;
// tokenizer_config.json if there is one), or a file (SentencePiece's if its name ends with .model,
// else a tokenizer.json). Returns ZERO_ERR_UNSUPPORTED for what is not built, quoting it;
// ZERO_ERR_DATA for a file that contradicts itself.
zero_status zr_tokenizer_load(const char *path, zr_tokenizer **out, zero_error *error);
// Opens a tokenizer by a user's text: "bytes", "chars" (of `text`), or a path as above. Returns
// ZERO_ERR_USAGE if it is none of these.
zero_status zr_tokenizer_open(const char *what, const char *text, size_t length, const char *name,
                              zr_tokenizer **out, zero_error *error);
// Writes tokenizer.json and tokenizer_config.json durably; for a loaded BPE it writes the files
// that it was loaded from, byte for byte, and completes them with these two (bpe_save.c).
zero_status zr_tokenizer_save(const zr_tokenizer *tokenizer, const char *directory,
                              zero_error *error);
// Returns whether the directory has files that zr_tokenizer_load reads.
bool zr_tokenizer_is_at(const char *directory);
void zr_tokenizer_destroy(zr_tokenizer *tokenizer);

zr_tokenizer_kind zr_tokenizer_kind_of(const zr_tokenizer *tokenizer);
// Returns "bytes", "chars", "byte-level BPE", "BPE" or "Unigram".
const char *zr_tokenizer_name(const zr_tokenizer *tokenizer);
// Returns the largest id + 1; a BPE may have ids without a token.
int32_t zr_tokenizer_vocabulary(const zr_tokenizer *tokenizer);
// Returns a hash of everything that determines the ids: equal tokenizers have equal hashes.
uint64_t zr_tokenizer_fingerprint(const zr_tokenizer *tokenizer);
// Returns the id that ends a text (eos_token); -1 if there is none.
int32_t zr_tokenizer_end(const zr_tokenizer *tokenizer);
// Returns the id that begins a text (bos_token); -1 if there is none.
int32_t zr_tokenizer_begin(const zr_tokenizer *tokenizer);
// Finds the token spelled like this.
bool zr_tokenizer_find(const zr_tokenizer *tokenizer, const char *content, int32_t *id);
bool zr_tokenizer_is_special(const zr_tokenizer *tokenizer, int32_t id);
// Returns whether it normalizes and cuts text as Qwen2's own tokenizer does.
bool zr_tokenizer_is_qwen2(const zr_tokenizer *tokenizer);
// Returns the ids that the file's post-processor puts before and after a text (often a begin
// token). Encoding never adds it; callers that want it add it themselves.
void zr_tokenizer_template(const zr_tokenizer *tokenizer, const int32_t **before, int *before_count,
                           const int32_t **after, int *after_count);

// Appends the ids of a whole text, in mode TEXT. Returns ZERO_ERR_DATA, with `name` and the byte
// offset if there is one, for unknown characters and invalid UTF-8 for which the tokenizer has no
// token, and for a text that its normalizer makes far too long.
zero_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, size_t length,
                                const char *name, zr_ids *out, zero_error *error);
// Returns an end such that the ids of text[first, end), followed by those of text[end, length), are
// those of the whole. It is the largest such end up to `limit`, else the next one after it;
// `length` if there is none.
size_t zr_tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                        size_t length);

// State of encoding between calls (pieces seen before, working memory). Its size is bounded; one
// thread at a time may use it.
typedef struct zr_encoder zr_encoder;
zero_status zr_encoder_create(const zr_tokenizer *tokenizer, zr_encoder **out, zero_error *error);
void zr_encoder_destroy(zr_encoder *encoder);
// Appends the ids of text[first, end). With first > 0 it continues at a cut, so nothing is put
// before it.
zero_status zr_encoder_append(zr_encoder *encoder, zr_encode_mode mode, const char *text,
                              size_t first, size_t end, const char *name, zr_ids *out,
                              zero_error *error);

// Appends the bytes of one token. They may need later ones to form UTF-8. An id without a token (a
// model may have more rows than the tokenizer has ids) gives U+FFFD.
void zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out);

// Makes text from ids as they come. Appended text is valid UTF-8 and never changes later: bytes
// that later ones may complete are held back, and invalid bytes become U+FFFD. So the whole text is
// the one that the library decodes from all ids.
typedef struct zr_decoder {
    const zr_tokenizer *tokenizer;
    zr_buffer pending;
    int64_t tokens;
    int stripped;
    bool skip_special;
} zr_decoder;
void zr_decoder_begin(zr_decoder *decoder, const zr_tokenizer *tokenizer, bool skip_special);
void zr_decoder_push(zr_decoder *decoder, int32_t id, zr_buffer *out);
// Appends the bytes that were held back, frees their memory, and starts a new text.
void zr_decoder_end(zr_decoder *decoder, zr_buffer *out);

// Several threads that encode one text (encode_threads.c). The text is cut where no token crosses,
// so the ids are those of the whole text, in order.
typedef struct zr_encode_threads zr_encode_threads;

// Takes ids as they come, in order, on the caller's thread. A status other than ZERO_OK ends the
// encoding.
typedef zero_status (*zr_take_ids)(void *user, const int32_t *ids, int64_t count,
                                   zero_error *error);

zero_status zr_encode_threads_create(const zr_tokenizer *tokenizer, int threads,
                                     zr_encode_threads **out, zero_error *error);
void zr_encode_threads_destroy(zr_encode_threads *pool);
// Encodes a text with all threads. It needs memory for about 1 MiB of text for each thread at a
// time, and its ids; more only if the text cannot be cut. `taken` (may be NULL) gets the bytes
// encoded so far now and then, and as a sign of life while a long part is encoded.
zero_status zr_encode_threads_run(zr_encode_threads *pool, zr_encode_mode mode, const char *text,
                                  size_t length, const char *name, zr_take_ids take,
                                  void (*taken)(void *user, size_t bytes), void *user,
                                  zero_error *error);

#endif
