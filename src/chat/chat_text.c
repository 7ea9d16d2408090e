// What a template sees of a conversation, as transformers' apply_chat_template passes it: the
// messages without keys that are null, thoughts by each of their names; tools and documents, which
// are None where there are none; the special tokens; and chat_template_kwargs.
#include "chat/chat_internal.h"

#include <string.h>

// Returns the message without keys that are null: itself, or a copy.
static json_t *without_nulls(json_t *message)
{
    const char *key;
    json_t *value, *copy = NULL;
    json_object_foreach(message, key, value) if (json_is_null(value))
    {
        copy = copy ? copy : json_copy(message);
        if (!copy)
            return NULL;
        json_object_del(copy, key);
    }
    return copy ? copy : json_incref(message);
}

// Gives thoughts the two names by which templates read them. Takes over `message`.
static json_t *name_thoughts(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *thought = NULL, *copy;
    for (int i = 0; !thought && i < ZR_COUNT(names); i++)
        thought = json_object_get(message, names[i]);
    if (!thought)
        return message;
    copy = json_copy(message);
    if (copy && !json_object_get(copy, "thinking") && json_object_set(copy, "thinking", thought)) {
        json_decref(copy);
        copy = NULL;
    }
    if (copy && json_object_set(copy, "reasoning_content", thought)) {
        json_decref(copy);
        copy = NULL;
    }
    json_decref(message);
    return copy;
}

static json_t *messages_for_template(const json_t *messages)
{
    json_t *out = json_array(), *message;
    size_t i;
    json_array_foreach(messages, i, message)
    {
        json_t *plain = without_nulls(message);
        plain = plain ? name_thoughts(plain) : NULL;
        if (!out || !plain || json_array_append_new(out, plain)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static bool put(json_t *variables, const char *key, const json_t *value)
{
    return !json_object_set_new(variables, key, value ? json_incref((json_t *)value) : json_null());
}

static json_t *variables_for_template(const zr_chat *chat, const zr_conversation *of)
{
    json_t *out = json_object();
    bool done = out && (!chat->tokens || !json_object_update(out, chat->tokens)) &&
                put(out, "tools", of->tools) && put(out, "documents", of->documents) &&
                (!of->options || !json_object_update(out, (json_t *)of->options));
    if (!done) {
        json_decref(out);
        return NULL;
    }
    return out;
}

zero_status zr_chat_text_open(const zr_chat *chat, const zr_conversation *of, zr_chat_text *out,
                              zero_error *error)
{
    *out = (zr_chat_text){.chat = chat, .of = of};
    if (!chat->template)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s", of->name,
                       chat->refusal ? chat->refusal
                                     : "messages need a chat template, and there is none");
    ZERO_TRY(zr_chat_check_keys(chat, of, error));
    out->messages = messages_for_template(of->messages);
    out->variables = out->messages ? variables_for_template(chat, of) : NULL;
    out->count = json_array_size(of->messages);
    if (out->variables)
        return ZERO_OK;
    zr_chat_text_close(out);
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its messages", of->name);
}

void zr_chat_text_close(zr_chat_text *text)
{
    json_decref(text->messages);
    json_decref(text->variables);
    *text = (zr_chat_text){0};
}

// Returns the first `count` messages.
static json_t *first_messages(const zr_chat_text *text, size_t count)
{
    json_t *out = count < text->count ? json_array() : json_incref(text->messages);
    for (size_t i = 0; out && count < text->count && i < count; i++)
        if (json_array_append(out, json_array_get(text->messages, i))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

zero_status zr_chat_text_render(const zr_chat_text *text, size_t count, bool prompt,
                                zr_rendered *out, zero_error *error)
{
    const zr_template_options options = {.date = text->chat->date};
    json_t *messages = first_messages(text, count);
    if (!messages || json_object_set_new(text->variables, "messages", messages) ||
        json_object_set_new(text->variables, "add_generation_prompt", json_boolean(prompt)))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its messages", text->of->name);
    zero_status status =
        zr_template_render(text->chat->template, text->variables, &options, out, error);
    if (status != ZERO_OK)
        zr_error_prefix(error, "%s", text->of->name);
    return status;
}
