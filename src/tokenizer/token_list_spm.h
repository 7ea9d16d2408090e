// What zr_token_list_json writes for SentencePiece's rules (token_list_spm.c).
#ifndef ZR_TOKENIZER_TOKEN_LIST_SPM_H
#define ZR_TOKENIZER_TOKEN_LIST_SPM_H

#include "base/json_writer.h"
#include "tokenizer/token_list.h"

// Writes the normalizer that comes nearest to the rules.
void zr_token_list_write_normalizer(zr_json_writer *w, const zr_token_list *list);
// Writes the rules themselves, into the model; other programs pass over them.
void zr_token_list_write_rules(zr_json_writer *w, const zr_token_list *list);
// Writes the model of a list with `unigram`, with its rules.
void zr_token_list_write_unigram(zr_json_writer *w, const zr_token_list *list);

#endif
