// Prompts as the ids that a model expects, those of transformers' tokenizer(prompt) or of
// apply_chat_template, and the tokens that end an answer.
#ifndef ZR_INFER_PROMPTS_H
#define ZR_INFER_PROMPTS_H

#include "chat/chat.h"
#include "comm/communicator.h"

// Prompt p is ids.at[first[p]] up to, but not including, ids.at[first[p + 1]]; no prompt is empty.
typedef struct zr_prompts {
    zr_ids ids;
    int64_t *first;         // (count + 1)
    int64_t count, longest; // longest: in tokens
} zr_prompts;

// Encodes `texts`. What the tokenizer's template puts around a text (often a begin token) is put
// around each, and the spelling of a special token becomes that token.
// chat: each text is what a user says, and is encoded as the chat writes it, up to where the
// assistant begins; NULL: no chat.
// An empty text becomes what the template adds; if that is nothing, a new line; and if a vocabulary
// of characters has no new line, the first id.
zero_status zr_prompts_encode(const zr_tokenizer *tokenizer, const zr_chat *chat,
                              const char *const *texts, int64_t count, zr_prompts *out,
                              zero_error *error);
// Encodes one prompt: a conversation up to where the assistant's next answer begins. messages: an
// array of {"role", "content"}.
zero_status zr_prompts_encode_turns(const zr_tokenizer *tokenizer, const zr_chat *chat,
                                    const json_t *messages, zr_prompts *out, zero_error *error);
// Sends rank 0's prompts, and the ids that end an answer, to all ranks; those of the others are
// zeroed before. Rank 0 alone may be able to read prompts, because they come from a pipe or a
// terminal. Collective.
zero_status zr_prompts_share(zero_comm *comm, zr_prompts *prompts, zr_ids *ends, zero_error *error);
void zr_prompts_free(zr_prompts *prompts); // zeroed prompts are allowed

// end_tokens.c. Reads eos_token_id, one id or a list, from generation_config.json, or else from
// config.json, or else takes the tokenizer's end token. Ids that no token has are ignored. chat:
// adds the mark that ends what an assistant says; NULL: no chat. Returns ZERO_ERR_DATA for a
// damaged file or a value that is not an id. Free *out with zr_ids_free, also after a failure.
zero_status zr_end_tokens_read(const char *directory, const zr_tokenizer *tokenizer,
                               const zr_chat *chat, zr_ids *out, zero_error *error);

#endif
