// The inside of a tokenizer, shared by the files of this room that make, use, write and read it.
#ifndef ZR_TOKENIZER_VOCABULARY_H
#define ZR_TOKENIZER_VOCABULARY_H

#include "tokenizer/tokenizer.h"

#define ZR_CODE_POINTS 0x110000

typedef struct zr_tokenizer_ops { // one table for each kind
    zr_tokenizer_kind kind;
    // Encodes text[first, end) to encoder->out; text[0, first) was encoded before.
    zero_status (*encode)(zr_encoder *encoder, const char *text, size_t first, size_t end);
    size_t (*cut)(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                  size_t length);
    void (*decode)(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out);
    // `last`: there is no id, because the text ends.
    void (*push)(zr_decoder *decoder, int32_t id, bool last, zr_buffer *out);
    zero_status (*save)(const zr_tokenizer *tokenizer, const char *directory, zero_error *error);
    void (*free)(zr_tokenizer *tokenizer); // frees what the kind holds
} zr_tokenizer_ops;

typedef struct zr_tokenizer_file {
    const char *name;
    char *data;
    size_t length;
} zr_tokenizer_file;

struct zr_tokenizer {
    const zr_tokenizer_ops *ops;
    int32_t vocabulary; // V
    int32_t begin, end; // -1 if there is none
    uint64_t fingerprint;
    int32_t *code_points;       // (V) chars: the character of each id
    int32_t *ids;               // (id_count) chars: 1 + id of each code point; 0 if it has no id
    int32_t id_count;           // the largest code point + 1
    struct zr_bpe *bpe;         // BPE
    zr_tokenizer_file files[8]; // BPE: the files from which it was read, for saving
    int file_count;
};

extern const zr_tokenizer_ops zr_bytes_ops, zr_chars_ops;

// Makes a chars tokenizer whose id i is code_points[i]. They are distinct and valid, and count > 0.
zero_status zr_tokenizer_from_code_points(const int32_t *code_points, int32_t count,
                                          zr_tokenizer **out, zero_error *error);
zero_status zr_tokenizer_from_bytes(zr_tokenizer **out, zero_error *error);
// Saves a bytes or chars tokenizer.
zero_status zr_plain_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error);

// Returns the bytes of the character at the beginning of text[0..left), left > 0. Returns 0 if that
// is not strictly valid UTF-8: overlong forms, surrogates and everything above U+10FFFF are not.
int zr_utf8_next(const char *text, size_t left, int32_t *code_point);
// Returns the largest end <= limit that does not cut a character; `limit` in text that is not
// UTF-8.
size_t zr_character_cut(const char *text, size_t limit, size_t length);
// Moves valid UTF-8 from `pending` to `out`. Bytes that no later byte can make valid become U+FFFD,
// one for each longest beginning of a character. Bytes that later ones may still complete stay,
// unless `last`.
void zr_utf8_flush(zr_buffer *pending, bool last, zr_buffer *out);

#endif
