// The inside of a BPE tokenizer: what a tokenizer.json says, in tables that encoding reads. Written
// by bpe_load.c, bpe_load_merges.c, pipeline.c and bpe_finish.c.
//
//   text -> added tokens -> normalizer -> added tokens that are sought in normalised text ->
//   pre-tokenizer -> pieces -> merges -> ids
//   ids  -> bytes of each token -> decoder -> text
#ifndef ZR_TOKENIZER_BPE_H
#define ZR_TOKENIZER_BPE_H

#include "tokenizer/bpe_tables.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

typedef struct zr_added_token { // found as a whole, before anything else
    char *content;
    char *sought;  // the same, normalised where `normalized`
    size_t length; // of `sought`
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
} zr_added_token;

typedef enum zr_normal_kind { ZR_NORMAL_NFC, ZR_NORMAL_PREPEND, ZR_NORMAL_REPLACE } zr_normal_kind;
// PREPEND: `to`
typedef struct zr_normal_step {
    zr_normal_kind kind;
    char *from, *to;
} zr_normal_step;

typedef enum zr_split_kind { ZR_SPLIT_PIECES, ZR_SPLIT_PREFIX, ZR_SPLIT_METASPACE } zr_split_kind;
typedef enum zr_prefix { ZR_PREFIX_NEVER, ZR_PREFIX_FIRST, ZR_PREFIX_ALWAYS } zr_prefix;
typedef struct zr_split_step { // one stage of the pre-tokenizer
    zr_split_kind kind;
    zr_next_piece next; // PIECES
    // PREFIX: a space before a piece that has none; METASPACE: `space` before one that does not
    // begin with it
    zr_prefix prefix;
    char *space; // METASPACE: what stands for a space
    bool splits; // METASPACE: before each of them
} zr_split_step;

enum { ZR_STEPS = 8 };
// times as many bytes as before, and one more: what normalizers and decoders may make of a text;
// NFC makes 3 at most
enum { ZR_MOST_GROWTH = 64 };

#define ZR_METASPACE "\xe2\x96\x81" // U+2581, which SentencePiece writes for a space

typedef struct zr_bpe {
    char *text;             // of all tokens, as the file spells them; then their bytes
    zr_text_span *spelled;  // (vocabulary) length 0: no token has this id
    zr_text_span *bytes;    // (vocabulary) what each decodes to, before the decoder looks at it
    unsigned char *is_byte; // (vocabulary) 1: a token that stands for one byte (byte fallback)
    zr_text_span_map ids;   // of the model's tokens as spelled
    zr_text_span_map whole; // ignore_merges: of byte-level tokens by their bytes; else empty
    zr_merge_map merges;
    int32_t symbols[256]; // id of each byte: byte level, or byte fallback; -1: none
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    // no token has a space that another character precedes: words never merge (SentencePiece)
    bool words_apart;
    int32_t unk; // -1: what is unknown is refused
    int32_t model_tokens;

    zr_added_token *added;           // (added_count)
    int added_count, ordinary_added; // of which are not special
    // whether one that is sought in raw, in normalised text begins with this byte
    bool added_starts[2][256];
    // (added_sought) those that are sought in raw, in normalised text, sorted by what is sought
    const zr_added_token **added_order[2];
    int added_sought[2];
    zr_normal_step normal[ZR_STEPS];
    int normal_count;
    zr_split_step split[ZR_STEPS];
    int split_count;

    struct { // what the decoder does to the tokens' bytes beyond putting them together
        bool byte_level, fallback, metaspace, spaced; // spaced: no decoder, tokens stand apart
        char *from, *to;                              // Replace
        char *strip; // at most `strip_count` of this at the beginning of the text
        int strip_count;
        char *space;      // Metaspace's replacement
        bool keeps_first; // Metaspace: the first token keeps its spaces
    } decoder;

    int32_t *prefix, *suffix; // what the post-processor puts around a text
    int prefix_count, suffix_count;
    zr_classes classes;
} zr_bpe;

// Sorts what zr_added_find looks through, and refuses contents that are given twice. Once, when all
// tokens are there.
zero_status zr_added_sort(zr_bpe *bpe, const char *name, zero_error *error);
void zr_bpe_free(zr_bpe *bpe);
extern const zr_tokenizer_ops zr_bpe_ops;

#endif
