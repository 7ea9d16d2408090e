// Checks the other keys of a message, apart from role and content: whether it is trained on, and
// keys that no known format writes. The latter are refused, because leaving them out silently would
// change the conversation.
#include "data/chat_internal.h"

#include <string.h>

// Returns whether a value is there and not empty.
static bool is_given(const json_t *value)
{
    return value && !json_is_null(value) && !json_is_false(value) &&
           !(json_is_array(value) && !json_array_size(value)) &&
           !(json_is_object(value) && !json_object_size(value)) &&
           !(json_is_string(value) && !json_string_length(value));
}

zero_status zr_chat_check_extras(const zr_conversation *of, zero_error *error)
{
    const struct {
        const char *key;
        const json_t *value;
    } extras[] = {
        {"tools", of->tools}, {"documents", of->documents}, {"chat_template_kwargs", of->options}};
    for (int i = 0; i < ZR_COUNT(extras); i++)
        if (is_given(extras[i].value))
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s: the record has \"%s\", which the known chat formats do not write: "
                           "it would be left out; remove the key to train without it, or write "
                           "such records as text (\"prompt\" and \"completion\")",
                           of->name, extras[i].key);
    return ZERO_OK;
}

zero_status zr_chat_check_message(const zr_chat_place *at, const json_t *message, zero_error *error)
{
    static const char *const keys[] = {"tool_calls", "function_call", "reasoning_content",
                                       "reasoning", "thinking"};
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role)
        return zr_fail(error, ZERO_ERR_DATA, "%s: message %zu has no \"role\" that is text",
                       at->name, at->index);
    for (int i = 0; i < ZR_COUNT(keys); i++)
        if (is_given(json_object_get(message, keys[i])))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: message %zu (%s) has \"%s\", which the known chat formats do not "
                           "write: it would be left out; remove the key to train without it, or "
                           "write such records as text (\"prompt\" and \"completion\")",
                           at->name, at->index, role, keys[i]);
    if (!strcmp(role, "tool") || !strcmp(role, "function"))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu (%s): results of tools are not built; "
                       "write such records as text (\"prompt\" and \"completion\")",
                       at->name, at->index, role);
    if (!json_is_string(json_object_get(message, "content")))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu (%s) has no \"content\" that is text: images and the like "
                       "are not built",
                       at->name, at->index, role);
    return ZERO_OK;
}

typedef enum choice { UNSAID, LEFT_OUT, COUNTED } choice;

// Reads OpenAI's "weight" (0 or 1), or a "train" that is true or false.
static zero_status read_choice(const zr_chat_place *at, const json_t *message, const char *key,
                               bool number, choice *out, zero_error *error)
{
    const json_t *value = json_object_get(message, key);
    double weight = json_number_value(value);
    *out = UNSAID;
    if (!value || json_is_null(value))
        return ZERO_OK;
    bool right =
        number ? json_is_number(value) && (weight == 0 || weight == 1) : json_is_boolean(value);
    if (!right)
        return zr_fail(error, ZERO_ERR_DATA, "%s: message %zu: its \"%s\" must be %s", at->name,
                       at->index, key,
                       number ? "0 (context only) or 1 (trained on): other weights are not built"
                              : "true or false");
    *out = (number ? weight == 1 : json_is_true(value)) ? COUNTED : LEFT_OUT;
    return ZERO_OK;
}

zero_status zr_chat_message_counts(const zr_chat_place *at, const json_t *message, bool *counts,
                                   zero_error *error)
{
    choice weight, train;
    const char *role = json_string_value(json_object_get(message, "role"));
    bool answer = !strcmp(role, "assistant");
    ZERO_TRY(read_choice(at, message, "weight", true, &weight, error));
    ZERO_TRY(read_choice(at, message, "train", false, &train, error));
    if (weight && train && weight != train)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu: its \"weight\" and its \"train\" say different things",
                       at->name, at->index);
    if (!answer && (weight == COUNTED || train == COUNTED))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu (%s) asks to be trained on (\"%s\"): only messages of the "
                       "assistant are",
                       at->name, at->index, role, weight == COUNTED ? "weight" : "train");
    *counts = answer && weight != LEFT_OUT && train != LEFT_OUT;
    return ZERO_OK;
}
