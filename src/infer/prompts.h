// Encodes prompts as the ids that a model expects: those of transformers' tokenizer(prompt), or of
// apply_chat_template.
#ifndef ZR_INFER_PROMPTS_H
#define ZR_INFER_PROMPTS_H

#include "data/chat.h"
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
// Gives rank 0's prompts, and the ids that end an answer, to all ranks, of which the others' are
// zeroed. Collective.
zero_status zr_prompts_share(zero_comm *comm, zr_prompts *prompts, zr_ids *ends, zero_error *error);
void zr_prompts_free(zr_prompts *prompts); // zeroed prompts are allowed

#endif
