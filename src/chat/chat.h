// Conversations as text: the chat templates that are known, written as transformers'
// apply_chat_template writes them.
//
// A template is a program in Jinja. None is run here: its text is compared with those of the
// formats below, and a template that is none of them is refused. What the assistant says is trained
// on, its end mark included; everything else is prompt.
//
//   chatml     <|im_start|>user\n...<|im_end|>\n<|im_start|>assistant\n[...<|im_end|>]\n
//              (Qwen2, Qwen2.5, SmolLM2, and others)
//   llama2     <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST][ ... </s>]
//   llama3     <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>
//              <|start_header_id|>assistant<|end_header_id|>\n\n[...<|eot_id|>]     (in one line)
//   llama3.1   the same after a system message with two dates
//   mistral    <s>[INST] ... [/INST][...</s>], and as of 2024  <s> [INST] ... [/INST][ ...</s>]
#ifndef ZR_CHAT_CHAT_H
#define ZR_CHAT_CHAT_H

#include "base/json.h"
#include "tokenizer/document.h"

typedef struct zr_chat_format zr_chat_format;

typedef struct zr_chat {
    const zr_chat_format *format; // NULL: none, and `refusal` says why
    char *begin, *end;            // bos_token and eos_token; "" where the tokenizer has none
    char *system;                 // what the system says where the messages do not; NULL: nothing
    char *refusal;
} zr_chat;

// The template of a model directory (tokenizer_config.json, chat_template.jinja) or, where `format`
// is given, that format with the directory's begin and end tokens; "auto" is as NULL. directory
// NULL: there is none. A template that is not known, or that is missing, is no failure here but of
// zr_chat_render. ZERO_ERR_USAGE: no such format; ZERO_ERR_DATA: tokenizer_config.json is broken.
zero_status zr_chat_load(const char *directory, const char *format, zr_chat *out,
                         zero_error *error);
void zr_chat_free(zr_chat *chat);
const char *zr_chat_format_at(int i); // the name of format i; NULL: there are no more
const char *zr_chat_format_name(const zr_chat *chat); // "chatml", ...; NULL: none

// The same of a template's text. For zr_chat_load, and for tests.
zero_status zr_chat_recognise(const char *text, zr_chat *out, zero_error *error);

// Appends messages, an array of {"role": ..., "content": "..."}. What the assistant says counts
// from message `trained_from` on.
// `name` ("FILE:LINE") stands before messages: no known template (ZERO_ERR_UNSUPPORTED), roles that
// the format has no place for.
zero_status zr_chat_render(const zr_chat *chat, const json_t *messages, size_t trained_from,
                           const char *name, zr_document *out, zero_error *error);
// Appends what a user says as the one message of a conversation, up to where the answer begins:
// apply_chat_template with add_generation_prompt. Fails as zr_chat_render.
zero_status zr_chat_ask(const zr_chat *chat, const char *text, const char *name, zr_document *out,
                        zero_error *error);
// What spells the token that ends such an answer; "" where nothing does.
const char *zr_chat_turn_end(const zr_chat *chat);

#endif
