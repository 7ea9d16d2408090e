// SentencePiece's own file, tokenizer.model, is a protobuf message:
//
//   1  piece            1 text | 2 score (float) | 3 type, with the numbers of zr_token_kind
//   2  trainer_spec     3 model_type | 24 treat_whitespace_as_suffix | 35 byte_fallback
//                       | 46 bos_piece | 47 eos_piece
//   3  normalizer_spec  2 precompiled_charsmap | 3 add_dummy_prefix | 4 remove_extra_whitespaces
//                       | 5 escape_whitespaces
//   5  denormalizer_spec, as 3
//
// Of its kinds of models BPE and Unigram are built. All other fields change nothing in how text is
// encoded.
#ifndef ZR_TOKENIZER_SENTENCEPIECE_H
#define ZR_TOKENIZER_SENTENCEPIECE_H

#include "tokenizer/bpe_load.h"
#include "tokenizer/token_list.h"

typedef struct zr_proto_value {
    uint64_t number;   // or the length of `bytes`, or the bits of a float; a flag is 0 or 1
    const char *bytes; // in the file; NULL if the field has none
} zr_proto_value;

enum { ZR_SPM_UNIGRAM = 1, ZR_SPM_BPE = 2 }; // a model_type

typedef struct zr_spm_settings { // what the file says apart from its pieces
    zr_proto_value type, suffix, byte_fallback, begin, end;
    zr_proto_value characters, adds_space, trims, escapes, decoded_characters;
} zr_spm_settings;

// sentencepiece_read.c: reads a file of any kind. `list` (zr_token_list_free) has its pieces, and
// room for `more` tokens after them. Settings that the file lacks are SentencePiece's defaults.
// ZERO_ERR_DATA, with the position, for what is no such message; `name` is for messages.
zero_status zr_spm_read(const char *name, const char *data, size_t length, int32_t more,
                        zr_spm_settings *settings, zr_token_list *list, zero_error *error);

// sentencepiece.c: writes the tokenizer as a tokenizer.json with the same ids. `settings` are those
// of the files next to it, with which the ids are those of transformers' LlamaTokenizer; without
// them, those of the library sentencepiece. *config (json_decref) is the
// tokenizer_config.json, completed so that transformers has all of its tokens with this
// tokenizer.json, or one that is made if there is none. ZERO_ERR_UNSUPPORTED, with what to do, for
// what would give other ids.
zero_status zr_spm_json(const char *name, const char *data, size_t length,
                        const zr_token_settings *settings, zr_buffer *json, json_t **config,
                        zero_error *error);

// sentencepiece_merges.c: checks that the order of the pieces' scores can be an order of merges.
// ZERO_ERR_UNSUPPORTED for equal scores, but for those of runs of spaces, and for characters that
// are merged and are no pieces.
zero_status zr_spm_check_merges(const char *name, const zr_token_list *list, zero_error *error);

// Ends a message that something is not built.
#define ZR_SPM_OTHER_WAY                                                                           \
    "; a tokenizer.json that `AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)` of "        \
    "transformers writes may be read instead"

#endif
