// Prompts as the ids that a model expects: those of transformers' tokenizer(prompt), or of
// apply_chat_template.
#ifndef ZR_INFER_PROMPTS_H
#define ZR_INFER_PROMPTS_H

#include "chat/chat.h"

// prompt p is ids.at[first[p]] up to, but without, ids.at[first[p + 1]]; none is empty
typedef struct zr_prompts {
    zr_ids ids;
    int64_t *first;         // (count + 1)
    int64_t count, longest; // longest: tokens
} zr_prompts;

// What the tokenizer's template puts around a text (often a begin token) stands around each, and
// what spells a special token is one.
// chat: each is what a user says, as that writes it, up to where the assistant begins; NULL: no
// chat. An empty text is what the template puts there; a new line where that is nothing; and the
// first id where a vocabulary of characters has no new line.
zero_status zr_prompts_encode(const zr_tokenizer *tokenizer, const zr_chat *chat,
                              const char *const *texts, int64_t count, zr_prompts *out,
                              zero_error *error);
void zr_prompts_free(zr_prompts *prompts); // zeroed ones are fine

#endif
