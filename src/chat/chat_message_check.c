// What messages and records say besides what is written: whether a message is trained on. And keys
// that the template never mentions: these are refused, because leaving them out silently would
// change the conversation.
#include "chat/chat_internal.h"

#include <string.h>

// Returns whether a value is there and not empty.
static bool is_given(const json_t *value)
{
    return value && !json_is_null(value) && !json_is_false(value) &&
           !(json_is_array(value) && !json_array_size(value)) &&
           !(json_is_object(value) && !json_object_size(value)) &&
           !(json_is_string(value) && !json_string_length(value));
}

// Templates read thoughts by one of these names; the others are copies of it.
static const char *const thoughts[] = {"reasoning_content", "thinking", "reasoning"};

static bool is_read(const zr_template *template, const char *key)
{
    bool is_thought = false, read = zr_template_mentions(template, key);
    for (int i = 0; i < ZR_COUNT(thoughts); i++)
        is_thought |= !strcmp(key, thoughts[i]);
    for (int i = 0; is_thought && !read && i < ZR_COUNT(thoughts); i++)
        read = zr_template_mentions(template, thoughts[i]);
    return read;
}

static const char advice[] = "which the chat template does not read: it would be left out; remove "
                             "the key to train without it, or choose another template with --chat";

static zero_status check_record_keys(const zr_chat *chat, const zr_conversation *of,
                                     zero_error *error)
{
    const struct {
        const char *key;
        const json_t *value;
    } extras[] = {{"tools", of->tools}, {"documents", of->documents}};
    const char *key;
    json_t *value;
    for (int i = 0; i < ZR_COUNT(extras); i++)
        if (is_given(extras[i].value) && !is_read(chat->template, extras[i].key))
            return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: the record has \"%s\", %s", of->name,
                           extras[i].key, advice);
    json_object_foreach((json_t *)of->options, key, value)
    {
        if (!is_read(chat->template, key))
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s: the record's \"chat_template_kwargs\" have \"%s\", %s", of->name,
                           key, advice);
    }
    return ZERO_OK;
}

static zero_status check_message_keys(const zr_chat *chat, const zr_conversation *of, size_t index,
                                      zero_error *error)
{
    static const char *const keys[] = {"tool_calls", "function_call", "reasoning_content",
                                       "reasoning", "thinking"};
    const json_t *message = json_array_get(of->messages, index);
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role)
        return zr_fail(error, ZERO_ERR_DATA, "%s: message %zu has no \"role\" that is text",
                       of->name, index);
    for (int i = 0; i < ZR_COUNT(keys); i++)
        if (is_given(json_object_get(message, keys[i])) && !is_read(chat->template, keys[i]))
            return zr_fail(error, ZERO_ERR_DATA, "%s: message %zu (%s) has \"%s\", %s", of->name,
                           index, role, keys[i], advice);
    return ZERO_OK;
}

zero_status zr_chat_check_keys(const zr_chat *chat, const zr_conversation *of, zero_error *error)
{
    if (!json_is_array(of->messages) || !json_array_size(of->messages))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: \"messages\" must be a list of at least one message", of->name);
    if (of->options && !json_is_object(of->options))
        return zr_fail(error, ZERO_ERR_DATA, "%s: \"chat_template_kwargs\" must be an object",
                       of->name);
    ZERO_TRY(check_record_keys(chat, of, error));
    for (size_t i = 0; i < json_array_size(of->messages); i++)
        ZERO_TRY(check_message_keys(chat, of, i, error));
    return ZERO_OK;
}

typedef enum choice { UNSAID, LEFT_OUT, COUNTED } choice;

// Reads OpenAI's "weight" (0 or 1), or a "train" that is true or false.
static zero_status read_choice(const char *name, size_t index, const json_t *message,
                               const char *key, bool number, choice *out, zero_error *error)
{
    const json_t *value = json_object_get(message, key);
    double weight = json_number_value(value);
    *out = UNSAID;
    if (!value || json_is_null(value))
        return ZERO_OK;
    bool right =
        number ? json_is_number(value) && (weight == 0 || weight == 1) : json_is_boolean(value);
    if (!right)
        return zr_fail(error, ZERO_ERR_DATA, "%s: message %zu: its \"%s\" must be %s", name, index,
                       key,
                       number ? "0 (context only) or 1 (trained on): other weights are not built"
                              : "true or false");
    *out = (number ? weight == 1 : json_is_true(value)) ? COUNTED : LEFT_OUT;
    return ZERO_OK;
}

zero_status zr_chat_message_counts(const char *name, size_t index, const json_t *message,
                                   bool *counts, zero_error *error)
{
    choice weight, train;
    const char *role = json_string_value(json_object_get(message, "role"));
    bool answer = !strcmp(role, "assistant");
    ZERO_TRY(read_choice(name, index, message, "weight", true, &weight, error));
    ZERO_TRY(read_choice(name, index, message, "train", false, &train, error));
    if (weight && train && weight != train)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu: its \"weight\" and its \"train\" say different things",
                       name, index);
    if (!answer && (weight == COUNTED || train == COUNTED))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu (%s) asks to be trained on (\"%s\"): only messages of the "
                       "assistant are",
                       name, index, role, weight == COUNTED ? "weight" : "train");
    *counts = answer && weight != LEFT_OUT && train != LEFT_OUT;
    return ZERO_OK;
}
