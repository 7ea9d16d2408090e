// How a BPE encodes: it cuts the text into segments between added tokens, segments into pieces, and
// turns pieces into ids.
#ifndef ZR_TOKENIZER_BPE_ENCODE_H
#define ZR_TOKENIZER_BPE_ENCODE_H

#include "tokenizer/bpe.h"

// A piece that was encoded before, with its ids.
typedef struct zr_word_entry {
    unsigned char length, count;
    char text[26];
    int32_t ids[9];
} zr_word_entry;

enum { ZR_WORDS = 1 << 14 };

typedef struct zr_bpe_scratch {
    void *data;
    size_t bytes;
} zr_bpe_scratch;

// The memory of encoding between calls; one for each thread.
struct zr_encoder {
    const zr_tokenizer *tokenizer;
    zr_encode_mode mode;
    bool goes_on;         // the current text continues what was encoded before
    bool rounds;          // Unigram: sums are rounded to fp32
    const char *name;     // name of the text, for messages
    zr_word_entry *words; // (ZR_WORDS) pieces seen before; a new piece replaces the one in its slot
    zr_bpe_scratch symbols, heap, normal, other, stripped[ZR_STEPS];
    zr_buffer made; // the text that SentencePiece's rules make
    zr_ids *out;
    zero_error *error;
};

// Returns room for at least `bytes`; the previous content is lost. NULL if there is no memory.
void *zr_scratch_reserve(zr_bpe_scratch *scratch, size_t bytes, zero_error *error);

// Appends the ids of one piece to encoder->out. Returns ZERO_ERR_DATA for a character that the
// vocabulary lacks and has no substitute for.
zero_status zr_bpe_piece(zr_encoder *encoder, const char *text, size_t length);
// Refuses a character of `bytes` bytes that has no token and no substitute.
zero_status zr_fail_unknown(const zr_encoder *encoder, const char *text, int bytes);
// unigram_encode.c: finds the ids of one piece, in the encoder's memory.
zero_status zr_unigram_piece(zr_encoder *encoder, const char *text, size_t length,
                             const int32_t **out, int64_t *count);
// Merges the n ids in place, and returns how many are left; -1 if there is no memory.
int64_t zr_bpe_merge(zr_encoder *encoder, int32_t *ids, int64_t n);

// Normalises a text. Returns ZERO_ERR_DATA if it grows too much (ZR_MOST_GROWTH). If there is
// nothing to do *out is `text` itself; else it is in the encoder's memory until the next call.
zero_status zr_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length,
                         const char **out, size_t *out_length);
// The text after the steps of a normalizer so far.
typedef struct zr_normal_text {
    const char *text;
    size_t length;
    zr_bpe_scratch *room; // the memory of `text`; NULL if it belongs to the caller
    size_t most;          // the most bytes that it may have
} zr_normal_text;

// Limits the growth, because a few strings of a file, each replaced by the next, could otherwise
// need any amount of memory. `more` counts bytes beyond `length`.
zero_status zr_normal_check_growth(const zr_encoder *encoder, const zr_normal_text *now,
                                   size_t length, size_t more);
// Makes a copy of a step's result the text; frees `made`.
zero_status zr_normal_take(zr_encoder *encoder, zr_buffer *made, zr_normal_text *now);
// normalize_characters.c, normalize_spaces.c: steps. `begins` is false if the text goes on after
// what was normalised before.
zero_status zr_normal_charsmap(zr_encoder *encoder, zr_normal_text *now);
zero_status zr_normal_runs(zr_encoder *encoder, const zr_normal_step *step, bool begins,
                           zr_normal_text *now);
void zr_normal_strip(const zr_encoder *encoder, const zr_normal_step *step, bool begins,
                     zr_normal_text *now);

// Pre-tokenizes one segment and encodes its pieces. `begins` means that the segment is at the
// beginning of the text.
zero_status zr_bpe_segment(zr_encoder *encoder, bool begins, const char *text, size_t length);

// Finds the next added token in text[from..length) of those looked for in raw or in normalised
// text: the leftmost, and the longest of those. NULL if there is none.
const zr_added_token *zr_added_find(const zr_bpe *bpe, bool normalized, const char *text,
                                    size_t from, size_t length, size_t *at);
zero_status zr_bpe_encode(zr_encoder *encoder, const char *text, size_t length);
size_t zr_bpe_cut(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                  size_t length);

#endif
