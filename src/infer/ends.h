// The tokens after which a model has nothing more to say.
#ifndef ZR_INFER_ENDS_H
#define ZR_INFER_ENDS_H

#include "chat/chat.h"

// eos_token_id, one id or a list, of generation_config.json, else of config.json, else the
// tokenizer's end token; ids that no token has are passed over. chat: and the mark that ends what
// an assistant says; NULL: no chat. ZERO_ERR_DATA: a broken file, a value that is no id. *out:
// zr_ids_free, also after a failure.
zero_status zr_ends_read(const char *directory, const zr_tokenizer *tokenizer, const zr_chat *chat,
                         zr_ids *out, zero_error *error);

#endif
