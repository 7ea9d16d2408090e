// Conversations as text: the known chat templates, written as transformers' apply_chat_template
// writes them.
//
// A template is a program in Jinja, which is not run here: its text is compared with those of the
// formats below, and any other template is refused. Messages of the assistant are trained on,
// including their end marks; everything else is prompt.
//
//   chatml     <|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n[...<|im_end|>]\n
//              (Qwen2, Qwen2.5, SmolLM2, and others)
//   llama2     <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST][ ... </s>]
//   llama3     <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>
//              <|start_header_id|>assistant<|end_header_id|>\n\n[...<|eot_id|>]     (in one line)
//   llama3.1   the same after a system message with two dates
//   mistral    <s>[INST] ... [/INST][...</s>], and as of 2024  <s> [INST] ... [/INST][ ...</s>]
#ifndef ZR_DATA_CHAT_H
#define ZR_DATA_CHAT_H

#include "base/json.h"
#include "tokenizer/document.h"
#include "tokenizer/tokenizer.h"

typedef struct zr_chat_format zr_chat_format;

typedef struct zr_chat {
    const zr_chat_format *format; // NULL if there is none: `refusal` has the reason
    char *begin, *end;            // bos_token and eos_token; "" if the tokenizer has none
    char *system; // the system message if the messages have none; NULL to write none
    char *refusal;
} zr_chat;

// Loads the template of a model directory (tokenizer_config.json, chat_template.jinja) or, if
// `format` is given, that format with the directory's begin and end tokens; "auto" means the same
// as NULL. `directory` may be NULL. A template that is unknown or missing is not an error here but
// in zr_chat_render. Returns ZERO_ERR_USAGE if there is no such format; ZERO_ERR_DATA if
// tokenizer_config.json is broken.
zero_status zr_chat_load(const char *directory, const char *format, zr_chat *out,
                         zero_error *error);
// Finds the text of a model directory's template, of any kind; NULL if it has none. zr_free.
zero_status zr_chat_template_in(const char *directory, char **out, zero_error *error);
void zr_chat_free(zr_chat *chat);
const char *zr_chat_format_at(int i);                 // name of format i; NULL if there are no more
const char *zr_chat_format_name(const zr_chat *chat); // "chatml", ...; NULL if there is none

// Checks whether the tokenizer has the marks of the format as tokens, before anything is tokenised.
// If it lacks any, a format that was requested by name (`named`) is ZERO_ERR_USAGE. The model's own
// template (`named` is NULL or "auto") becomes one that zr_chat_render refuses. Tokenizers of
// single bytes and characters spell everything, marks too, and pass.
zero_status zr_chat_check_marks(zr_chat *chat, const char *named, const zr_tokenizer *tokenizer,
                                zero_error *error);

// Appends the text of a Jinja template that writes what the format `chat` does, for
// chat_template.jinja. It is one of those that are recognised.
void zr_chat_template(const zr_chat *chat, zr_buffer *out);

// Finds the format of a template's text. For zr_chat_load, and for tests.
zero_status zr_chat_recognise(const char *text, zr_chat *out, zero_error *error);

// What a template is run on. Members that a record does not have are NULL.
typedef struct zr_conversation {
    const json_t *messages;          // an array of {"role": ..., "content": ...}
    size_t trained_from;             // messages before it are prompt, whoever wrote them
    const json_t *tools, *documents; // arrays
    const json_t *options;           // an object: "chat_template_kwargs"
    const char *name;                // "FILE:LINE", which begins error messages
} zr_conversation;

// Appends the text of a conversation. Messages of the assistant are trained on from message
// `trained_from` on, except those with "weight": 0 or "train": false. Returns ZERO_ERR_UNSUPPORTED
// if no template is known, ZERO_ERR_DATA for messages and roles that the format has no place for,
// and for keys that it does not write.
zero_status zr_chat_render(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error);
// Appends a conversation whose only message is `text` by the user, up to where the answer begins,
// as apply_chat_template with add_generation_prompt does. Fails as zr_chat_render does.
zero_status zr_chat_ask(const zr_chat *chat, const char *text, const char *name, zr_document *out,
                        zero_error *error);
// Returns the spelling of the token that ends such an answer; "" if there is none.
const char *zr_chat_turn_end(const zr_chat *chat);

#endif
