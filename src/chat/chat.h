// Conversations as text, by a chat template, as transformers' apply_chat_template writes them; and
// which parts of the text are trained on.
//
// The template is the model's own, one of the formats that --chat names (chat_formats.c), or a
// file. What the assistant says is trained on, including the mark that ends it; everything else is
// prompt. Where {% generation %} marks the answers in the template, that counts. Otherwise an
// answer is what the text of the messages up to it has more than the text of those before it, with
// the prompt of an answer:
//
//   <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n             before it, with the prompt
//   <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Hello<|im_end|>]\n          up to it
#ifndef ZR_CHAT_CHAT_H
#define ZR_CHAT_CHAT_H

#include "base/json.h"
#include "chat/template.h"
#include "tokenizer/document.h"
#include "tokenizer/tokenizer.h"

// What renderings of a chat have met. It changes, by atomic additions, though a chat does not.
typedef struct zr_chat_counts {
    int64_t rewritten; // conversations that lost an answer for training (zr_chat_render)
} zr_chat_counts;

typedef struct zr_chat {
    zr_template *template; // NULL if there is none: `refusal` has the reason
    char *name;            // "chatml", "the model's own template", "FILE.jinja"
    json_t *tokens;        // {"bos_token": "<s>", ...}: variables of the template
    char *refusal;
    zr_template_date date; // for templates that ask for it
    char *turn_end;
    // (mark_count) tokens that the template writes, at which its text may be cut; known after
    // zr_chat_check_marks.
    char **marks;
    int mark_count, mark_capacity;
    zr_chat_counts *counts;
} zr_chat;

// Loads the template of a model directory (chat_template.jinja, tokenizer_config.json) or, if
// `format` is given, the format of that name or the file FILE.jinja, with the directory's special
// tokens; "auto" means the same as NULL. `directory` may be NULL. `date`, "YYYY-MM-DD", is what the
// template takes for today; NULL: today. A model's template that is missing or broken is not an
// error here but in zr_chat_render. Returns ZERO_ERR_USAGE if there is no such format and for a
// date that is none; ZERO_ERR_DATA if tokenizer_config.json or the file is broken.
zero_status zr_chat_load(const char *directory, const char *format, const char *date, zr_chat *out,
                         zero_error *error);
// Finds the text of a model directory's template, of any kind; NULL if it has none. zr_free.
zero_status zr_chat_template_in(const char *directory, char **out, zero_error *error);
// Returns the adapter's directory if it has a template, with which it was trained, else the
// model's. adapter: NULL is allowed.
const char *zr_chat_directory(const char *adapter, const char *model);
void zr_chat_free(zr_chat *chat);
const char *zr_chat_format_at(int i);                 // name of format i; NULL if there are no more
const char *zr_chat_format_name(const zr_chat *chat); // chat->name; NULL if there is no template

// Checks whether the tokenizer has the marks that the template writes (such as <|im_end|>) as
// tokens, before anything is tokenised. If it lacks any, a template that was requested (`named`) is
// ZERO_ERR_USAGE. The model's own one (`named` is NULL or "auto") becomes one that zr_chat_render
// refuses. Tokenizers of single bytes and characters spell everything, marks too, and pass.
zero_status zr_chat_check_marks(zr_chat *chat, const char *named, const zr_tokenizer *tokenizer,
                                zero_error *error);

// Appends the text of the template, for chat_template.jinja.
void zr_chat_template(const zr_chat *chat, zr_buffer *out);
// Returns whether what the template writes depends on the date; writes that as "YYYY-MM-DD".
bool zr_chat_asks_date(const zr_chat *chat, char out[static 16]);

// What a template is run on. Members that a record does not have are NULL.
typedef struct zr_conversation {
    const json_t *messages;          // an array of {"role": ..., "content": ...}
    size_t trained_from;             // messages before it are prompt, whoever wrote them
    const json_t *tools, *documents; // arrays
    const json_t *options;           // an object: "chat_template_kwargs"
    const char *name;                // "FILE:LINE", which begins error messages
} zr_conversation;

// Appends the text of a conversation. Messages of the assistant are trained on from message
// `trained_from` on, except those with "weight": 0 or "train": false.
//
// Some templates write an answer differently once others follow (those that drop earlier thoughts).
// Such answers are left out of training, and the conversation is counted; ZERO_ERR_DATA if no
// answer is left. Returns ZERO_ERR_UNSUPPORTED if there is no template; ZERO_ERR_DATA for what is
// no conversation, for what the template refuses, and for keys that it does not read, which would
// be left out silently.
zero_status zr_chat_render(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error);
// Appends messages up to where the answer begins, as apply_chat_template with add_generation_prompt
// does. Fails as zr_chat_render does.
zero_status zr_chat_prompt(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error);
// The same for one message, `text` by the user.
zero_status zr_chat_ask(const zr_chat *chat, const char *text, const char *name, zr_document *out,
                        zero_error *error);
// Returns the spelling of the token that ends such an answer; "" if there is none.
const char *zr_chat_turn_end(const zr_chat *chat);

#endif
