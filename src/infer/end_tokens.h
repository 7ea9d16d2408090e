// The tokens that end an answer.
#ifndef ZR_INFER_END_TOKENS_H
#define ZR_INFER_END_TOKENS_H

#include "data/chat.h"

// Reads eos_token_id, one id or a list, from generation_config.json, or else from config.json, or
// else takes the tokenizer's end token. Ids that no token has are ignored. chat: adds the mark that
// ends what an assistant says; NULL: no chat. Returns ZERO_ERR_DATA for a damaged file or a value
// that is not an id. Free *out with zr_ids_free, also after a failure.
zero_status zr_end_tokens_read(const char *directory, const zr_tokenizer *tokenizer,
                               const zr_chat *chat, zr_ids *out, zero_error *error);

#endif
