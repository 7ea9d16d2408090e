// The inside of a BPE tokenizer: what a tokenizer.json says, in tables that encoding reads. Written by bpe_load.c and pipeline.c.
//
//   text -> added tokens -> normalizer -> added tokens that are sought in normalised text -> pre-tokenizer -> pieces -> merges -> ids
//   ids  -> bytes of each token -> decoder -> text
#ifndef ZR_TOKENIZER_BPE_H
#define ZR_TOKENIZER_BPE_H

#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

typedef struct zr_text_span { uint32_t at, length; } zr_text_span; // of a byte string that many share

typedef struct zr_text_span_map { // byte strings to ids
    const char *const *text; // where the spans lie
    zr_text_span *keys;           // (slots)
    int32_t *ids;            // (slots) -1: free
    uint32_t mask;           // slots - 1
} zr_text_span_map;

typedef struct zr_merge { int32_t left, right; int32_t rank, id; } zr_merge; // left + right = id; the lowest rank goes first
typedef struct zr_merge_map { // at most half full
    zr_merge *slots; // (mask + 1) left -1: free
    uint32_t mask;
} zr_merge_map;

typedef struct zr_added_token { // found as a whole, before anything else
    char *content;
    char *sought; // the same, normalised where `normalized`
    size_t length; // of `sought`
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
} zr_added_token;

typedef enum zr_normal_kind { ZR_NORMAL_NFC, ZR_NORMAL_PREPEND, ZR_NORMAL_REPLACE } zr_normal_kind;
typedef struct zr_normal_step { zr_normal_kind kind; char *from, *to; } zr_normal_step; // PREPEND: `to`

typedef enum zr_split_kind { ZR_SPLIT_PIECES, ZR_SPLIT_PREFIX, ZR_SPLIT_METASPACE } zr_split_kind;
typedef enum zr_prefix { ZR_PREFIX_NEVER, ZR_PREFIX_FIRST, ZR_PREFIX_ALWAYS } zr_prefix;
typedef struct zr_split_step { // one stage of the pre-tokenizer
    zr_split_kind kind;
    zr_next_piece next;  // PIECES
    zr_prefix prefix;    // PREFIX: a space before a piece that has none; METASPACE: `space` before one that does not begin with it
    char *space;         // METASPACE: what stands for a space
    bool splits;         // METASPACE: before each of them
} zr_split_step;

enum { ZR_STEPS = 8 };
enum { ZR_MOST_GROWTH = 64 }; // times as many bytes as before, and one more: what normalizers and decoders may make of a text; NFC makes 3 at most

#define ZR_METASPACE "\xe2\x96\x81" // U+2581, which SentencePiece writes for a space

typedef struct zr_bpe {
    char *text;            // of all tokens, as the file spells them; then their bytes
    zr_text_span *spelled;      // (vocabulary) length 0: no token has this id
    zr_text_span *bytes;        // (vocabulary) what each decodes to, before the decoder looks at it
    unsigned char *is_byte; // (vocabulary) 1: a token that stands for one byte (byte fallback)
    zr_text_span_map ids;       // of the model's tokens as spelled
    zr_text_span_map whole;     // ignore_merges: of byte-level tokens by their bytes; else empty
    zr_merge_map merges;
    int32_t symbols[256];  // id of each byte: byte level, or byte fallback; -1: none
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    bool words_apart;      // no token has a space that another character precedes: words never merge (SentencePiece)
    int32_t unk;           // -1: what is unknown is refused
    int32_t model_tokens;

    zr_added_token *added; // (added_count)
    int added_count, ordinary_added; // of which are not special
    bool added_starts[2][256]; // whether one that is sought in raw, in normalised text begins with this byte
    const zr_added_token **added_order[2]; // (added_sought) those that are sought in raw, in normalised text, sorted by what is sought
    int added_sought[2];
    zr_normal_step normal[ZR_STEPS];
    int normal_count;
    zr_split_step split[ZR_STEPS];
    int split_count;

    struct { // what the decoder does to the tokens' bytes beyond putting them together
        bool byte_level, fallback, metaspace, spaced; // spaced: no decoder, tokens stand apart
        char *from, *to;   // Replace
        char *strip;       // at most `strip_count` of this at the beginning of the text
        int strip_count;
        char *space;       // Metaspace's replacement
        bool keeps_first;  // Metaspace: the first token keeps its spaces
    } decoder;

    int32_t *prefix, *suffix; // what the post-processor puts around a text
    int prefix_count, suffix_count;
    zr_classes classes;
} zr_bpe;

// Tables. `text` is the tokenizer's; spans point into it.
zero_status zr_text_span_map_create(const char *const *text, int64_t count, zr_text_span_map *out, zero_error *error);
int32_t zr_text_span_map_find(const zr_text_span_map *map, const char *key, size_t length); // -1: not there
bool zr_text_span_map_insert(zr_text_span_map *map, zr_text_span key, int32_t id);               // false: it was there before
void zr_text_span_map_free(zr_text_span_map *map);
zero_status zr_merge_map_create(int64_t count, zr_merge_map *out, zero_error *error);
void zr_merge_map_insert(zr_merge_map *map, zr_merge merge); // of a pair given twice the last holds
const zr_merge *zr_merge_map_find(const zr_merge_map *map, int32_t left, int32_t right);

// GPT-2's alphabet: one printable character a byte.
int32_t zr_byte_symbol(int byte);
int zr_symbol_byte(int32_t code_point); // -1: not of the alphabet

// What encoding keeps between calls: one a thread.
typedef struct zr_word_entry { unsigned char length, count; char text[26]; int32_t ids[9]; } zr_word_entry;
enum { ZR_WORDS = 1 << 14 };

typedef struct zr_bpe_scratch { void *data; size_t bytes; } zr_bpe_scratch;

struct zr_encoder {
    const zr_tokenizer *tokenizer;
    zr_encode_mode mode;
    bool goes_on;           // the text at hand follows on what was encoded before
    const char *name;       // of the text, for messages
    zr_word_entry *words;   // (ZR_WORDS) pieces seen before; a new one takes its slot
    zr_bpe_scratch symbols, heap, normal, other, stripped[ZR_STEPS];
    zr_ids *out;
    zero_error *error;
};

// Where `what` first stands in the text, NULL: nowhere. Short strings that are met often: quicker here than by memmem.
const char *zr_find(const char *text, size_t length, const char *what, size_t width);
void *zr_scratch_get(zr_bpe_scratch *scratch, size_t bytes, zero_error *error); // content is lost; NULL: no memory

// Appends the ids of one piece to encoder->out. A character that the vocabulary lacks and has no stand-in for: ZERO_ERR_DATA.
zero_status zr_bpe_piece(zr_encoder *encoder, const char *text, size_t length);
// ids (n) become the merged word, in place; returns how many are left, -1: no memory.
int64_t zr_bpe_merge(zr_encoder *encoder, int32_t *ids, int64_t n);

// Normalises; what grows beyond all proportion is ZERO_ERR_DATA. *out is `text` itself where nothing is to do, else lies in the encoder's memory until the next call.
zero_status zr_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length, const char **out, size_t *out_length);
// Pre-tokenizes one segment and encodes its pieces. `begins`: the segment stands at the beginning of the text.
zero_status zr_bpe_segment(zr_encoder *encoder, bool begins, const char *text, size_t length);

// The next added token in text[from..length): leftmost, then longest, of those sought in raw or in normalised text. NULL: none.
// Sorts what zr_added_find looks through, and refuses contents that are given twice. Once, when all tokens are there.
zero_status zr_added_sort(zr_bpe *bpe, const char *name, zero_error *error);
const zr_added_token *zr_added_find(const zr_bpe *bpe, bool normalized, const char *text, size_t from, size_t length, size_t *at);
zero_status zr_bpe_encode(zr_encoder *encoder, const char *text, size_t length);
size_t zr_bpe_boundary(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit, size_t length);

void zr_bpe_free(zr_bpe *bpe);
extern const zr_tokenizer_ops zr_bpe_ops;

#endif
