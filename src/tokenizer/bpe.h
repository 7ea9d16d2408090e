// The inside of a BPE or Unigram tokenizer: the contents of a tokenizer.json, as tables that
// encoding reads. bpe_load.c, bpe_load_merges.c, unigram.c, bpe_normalizer.c, bpe_pipeline.c and
// bpe_finish.c fill them.
//
//   text -> added tokens -> normalizer -> added tokens that are looked for in normalised text ->
//   pre-tokenizer -> pieces -> merges, or pieces of the highest scores -> ids
//   ids  -> bytes of each token -> decoder -> text
#ifndef ZR_TOKENIZER_BPE_H
#define ZR_TOKENIZER_BPE_H

#include "tokenizer/bpe_tables.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

typedef struct zr_added_token { // found as a whole, before anything else
    char *content;
    char *sought;  // the text that is looked for: `content`, normalised if `normalized`
    size_t length; // of `sought`
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
} zr_added_token;

typedef enum zr_normal_kind {
    ZR_NORMAL_NFC,
    ZR_NORMAL_PREPEND,
    ZR_NORMAL_REPLACE,
    ZR_NORMAL_CHARSMAP,
    ZR_NORMAL_RUNS,
    ZR_NORMAL_STRIP
} zr_normal_kind;
typedef struct zr_normal_step {
    zr_normal_kind kind;
    // REPLACE: `to` in place of each `from`; RUNS: in place of runs of it; PREPEND uses only `to`.
    char *from, *to;
    int least;              // RUNS: of how many
    bool at_start, at_stop; // RUNS: only there; STRIP: white space is removed there
} zr_normal_step;

// WHITESPACE: cuts at white space, which belongs to no piece.
typedef enum zr_split_kind {
    ZR_SPLIT_PIECES,
    ZR_SPLIT_PREFIX,
    ZR_SPLIT_METASPACE,
    ZR_SPLIT_WHITESPACE
} zr_split_kind;
typedef enum zr_prefix { ZR_PREFIX_NEVER, ZR_PREFIX_FIRST, ZR_PREFIX_ALWAYS } zr_prefix;
typedef struct zr_split_step { // one step of the pre-tokenizer
    zr_split_kind kind;
    zr_next_piece next; // for PIECES
    // PREFIX: puts a space before a piece that does not begin with one. METASPACE: puts `space`
    // before a piece that does not begin with it.
    zr_prefix prefix;
    char *space; // METASPACE: stands for a space
    bool splits; // METASPACE: cuts the text before each `space`
} zr_split_step;

enum { ZR_STEPS = 8 };
// Limit of growth: normalizers and decoders may turn n bytes of text into at most this many times
// n, plus one. NFC makes at most 3 n.
enum { ZR_MOST_GROWTH = 64 };

#define ZR_METASPACE "\xe2\x96\x81" // U+2581, which SentencePiece writes in place of a space

typedef struct zr_bpe {
    char *text;             // the texts of all tokens as the file spells them, then their bytes
    zr_text_span *spelled;  // (vocabulary) length 0 if there is no token with this id
    zr_text_span *bytes;    // (vocabulary) the bytes of each token, before the decoder's own steps
    unsigned char *is_byte; // (vocabulary) 1 if the token stands for one byte (byte fallback)
    zr_text_span_map ids;   // ids of the model's tokens, as spelled
    // ignore_merges: ids of the tokens by the text that they match (byte-level tokens by their
    // bytes); else empty.
    zr_text_span_map whole;
    zr_merge_map merges;
    struct zr_unigram *unigram; // in place of merges; NULL: a BPE
    struct zr_spm_rules *rules; // in place of the normalizer; NULL: none (spm_normalize.h)
    zr_charsmap charsmap;       // of the normalizer
    int32_t symbols[256]; // id of each byte (byte level, or byte fallback); -1 if there is none
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    // No token has a space after another character, so words never merge (SentencePiece).
    bool words_apart;
    int32_t unk; // the unknown token; -1 if unknown text is refused
    int32_t model_tokens;

    zr_added_token *added;           // (added_count)
    int added_count, ordinary_added; // how many there are, and how many of them are not special
    // [normalized][byte]: a token looked for in raw or normalised text begins with this byte.
    bool added_starts[2][256];
    // (added_sought) [normalized]: the tokens looked for in raw or normalised text, sorted by
    // `sought`.
    const zr_added_token **added_order[2];
    int added_sought[2];
    zr_normal_step normal[ZR_STEPS];
    int normal_count;
    zr_split_step split[ZR_STEPS];
    int split_count;

    struct { // the decoder's steps, apart from joining the tokens' bytes
        // spaced: the file has no decoder, and spaces separate the tokens
        bool byte_level, fallback, metaspace, spaced;
        char *from, *to; // Replace
        char *strip;     // removed up to `strip_count` times from the beginning of the text
        int strip_count;
        char *space;      // Metaspace: the character that becomes a space
        bool keeps_first; // Metaspace: the first token keeps its spaces
    } decoder;

    int32_t *prefix, *suffix; // ids that the post-processor puts around a text
    int prefix_count, suffix_count;
    zr_classes classes;
} zr_bpe;

// Sorts the tokens for zr_added_find, and refuses a content that is given twice. Call it once,
// after all tokens are loaded.
zero_status zr_added_sort(zr_bpe *bpe, const char *name, zero_error *error);
void zr_bpe_free(zr_bpe *bpe);
extern const zr_tokenizer_ops zr_bpe_ops;

// bpe_save.c: zr_tokenizer_save of a BPE.
zero_status zr_bpe_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error);

#endif
