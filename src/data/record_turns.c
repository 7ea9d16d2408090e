#include "data/record_turns.h"

#include <string.h>

// What messages of ShareGPT are from, and what a chat template calls it.
static const struct {
    const char *from, *role;
} roles[] = {
    {"human", "user"},          {"user", "user"},         {"gpt", "assistant"},
    {"assistant", "assistant"}, {"chatgpt", "assistant"}, {"bing", "assistant"},
    {"bard", "assistant"},      {"model", "assistant"},   {"system", "system"},
    {"tool", "tool"},           {"observation", "tool"},  {"function_response", "tool"},
    {"function_call", NULL}, // the assistant's, with "tool_calls"
    {"tool_call", NULL},
};

static zero_status no_memory(const char *name, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its messages", name);
}

// The text of an error that lists what "from" may be.
static zero_status refuse_from(const char *from, size_t index, const char *name, zero_error *error)
{
    zr_buffer known = {0};
    for (int i = 0; i < ZR_COUNT(roles); i++)
        zr_buffer_printf(&known, "%s%s", i ? ", " : "", roles[i].from);
    zero_status status =
        known.failed ? no_memory(name, error)
                     : zr_fail(error, ZERO_ERR_DATA,
                               "%s: message %zu is from \"%.40s\", where one of these is needed: "
                               "%s",
                               name, index, from, known.data);
    zr_buffer_free(&known);
    return status;
}

// Parses JSON that stands in a text.
static zero_status parse_inner(const json_t *text, const char *name, const char *what, json_t **out,
                               zero_error *error)
{
    zero_error why = {.status = ZERO_OK};
    if (zr_json_parse(json_string_value(text), json_string_length(text), what, out, &why) ==
        ZERO_OK)
        return ZERO_OK;
    return zr_fail(error, why.status, "%s: %.900s", name, why.message);
}

// Appends {"type": "function", "function": {"name", "arguments"}} for a call, which has a name and
// arguments.
static bool append_call(json_t *calls, const json_t *call)
{
    json_t *function =
        json_pack("{s:s, s:O*}", "name", json_string_value(json_object_get(call, "name")),
                  "arguments", json_object_get(call, "arguments"));
    return function && !json_array_append_new(calls, json_pack("{s:s, s:o}", "type", "function",
                                                               "function", function));
}

static zero_status add_calls(const json_t *parsed, size_t index, const char *name, json_t *calls,
                             zero_error *error)
{
    size_t count = json_is_array(parsed) ? json_array_size(parsed) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *call = json_is_array(parsed) ? json_array_get(parsed, i) : parsed;
        if (!json_is_string(json_object_get(call, "name")))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: message %zu calls a function, but has no \"name\" that is text",
                           name, index);
        if (!append_call(calls, call))
            return no_memory(name, error);
    }
    return ZERO_OK;
}

// Makes "tool_calls" of a value like {"name": "f", "arguments": {...}}, or a list of such.
static zero_status set_calls(json_t *message, const json_t *value, size_t index, const char *name,
                             zero_error *error)
{
    json_t *parsed = NULL, *calls = json_array();
    zero_status status = !calls ? no_memory(name, error)
                         : json_is_string(value)
                             ? parse_inner(value, name, "the call of a function", &parsed, error)
                             : ZERO_OK;
    if (status == ZERO_OK)
        status = add_calls(parsed ? parsed : value, index, name, calls, error);
    if (status == ZERO_OK && (json_object_set(message, "tool_calls", calls) ||
                              json_object_set_new(message, "content", json_string(""))))
        status = no_memory(name, error);
    json_decref(parsed);
    json_decref(calls);
    return status;
}

static zero_status name_roles(json_t *message, const json_t *original, size_t index,
                              const char *name, zero_error *error)
{
    const char *from = json_string_value(json_object_get(original, "from"));
    const json_t *value = json_object_get(original, "value");
    int i = 0;
    while (i < ZR_COUNT(roles) && strcmp(roles[i].from, from))
        i++;
    if (i == ZR_COUNT(roles))
        return refuse_from(from, index, name, error);
    const char *role = roles[i].role;
    if (json_object_set_new(message, "role", json_string(role ? role : "assistant")))
        return no_memory(name, error);
    if (!role)
        return set_calls(message, value, index, name, error);
    return value && json_object_set(message, "content", (json_t *)value) ? no_memory(name, error)
                                                                         : ZERO_OK;
}

static zero_status add_message(json_t *messages, const json_t *message, size_t index,
                               const char *name, zero_error *error)
{
    bool tagged =
        json_is_string(json_object_get(message, "from")) && !json_object_get(message, "role");
    json_t *own = tagged ? json_copy((json_t *)message) : json_incref((json_t *)message);
    zero_status status = own ? ZERO_OK
                         : tagged
                             ? no_memory(name, error)
                             : zr_fail(error, ZERO_ERR_DATA, "%s: no message %zu", name, index);
    if (tagged && own) {
        json_object_del(own, "from");
        json_object_del(own, "value");
        status = name_roles(own, message, index, name, error);
    }
    if (status == ZERO_OK && json_array_append(messages, own))
        status = no_memory(name, error);
    json_decref(own);
    return status;
}

zero_status zr_turns_add_list(json_t *messages, const json_t *list, const char *name,
                              zero_error *error)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        ZERO_TRY(add_message(messages, json_array_get(list, i), i, name, error));
    return ZERO_OK;
}

zero_status zr_turns_add(json_t *messages, const char *role, const char *text, size_t length,
                         const char *name, zero_error *error)
{
    json_t *content = json_stringn(text, length);
    json_t *message = content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
    return message && !json_array_append_new(messages, message) ? ZERO_OK : no_memory(name, error);
}

// ---- earlier turns ------------------------------------------------------------------------------

const json_t *zr_turns_of_history(const json_t *history, size_t turn, bool answer)
{
    return json_array_get(json_array_get(history, turn), answer);
}

zero_status zr_turns_check_history(const json_t *history, const char *name, zero_error *error)
{
    bool right = !history || json_is_array(history);
    for (size_t i = 0; right && i < json_array_size(history); i++)
        right = json_array_size(json_array_get(history, i)) == 2 &&
                json_is_string(zr_turns_of_history(history, i, false)) &&
                json_is_string(zr_turns_of_history(history, i, true));
    return right ? ZERO_OK
                 : zr_fail(error, ZERO_ERR_DATA,
                           "%s: its history must be a list of pairs of texts, [[\"question\", "
                           "\"answer\"], ...]",
                           name);
}

zero_status zr_turns_add_history(json_t *messages, const json_t *history, const char *name,
                                 zero_error *error)
{
    ZERO_TRY(zr_turns_check_history(history, name, error));
    for (size_t i = 0; i < 2 * json_array_size(history); i++) {
        const json_t *text = zr_turns_of_history(history, i / 2, i % 2);
        ZERO_TRY(zr_turns_add(messages, i % 2 ? "assistant" : "user", json_string_value(text),
                              json_string_length(text), name, error));
    }
    return ZERO_OK;
}

// ---- tools --------------------------------------------------------------------------------------

static zero_status frame_tools(const json_t *list, const char *name, json_t *out, zero_error *error)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *tool = json_array_get(list, i);
        bool framed = !json_is_object(tool) || json_object_get(tool, "function");
        if (framed ? json_array_append(out, tool)
                   : json_array_append_new(
                         out, json_pack("{s:s, s:O}", "type", "function", "function", tool)))
            return no_memory(name, error);
    }
    return ZERO_OK;
}

zero_status zr_turns_tools(const json_t *tools, const char *name, json_t **out, zero_error *error)
{
    json_t *parsed = NULL;
    *out = NULL;
    if (json_is_string(tools) && json_string_length(tools))
        ZERO_TRY(parse_inner(tools, name, "its tools", &parsed, error));
    const json_t *list = parsed ? parsed : tools;
    bool none = !list || (json_is_string(list) && !json_string_length(list));
    zero_status status = ZERO_OK;
    if (!none && !json_is_array(list))
        status = zr_fail(error, ZERO_ERR_DATA,
                         "%s: its tools must be a list, or a text of JSON that is one", name);
    else if (!none && json_array_size(list) && !(*out = json_array()))
        status = no_memory(name, error);
    if (status == ZERO_OK && *out)
        status = frame_tools(list, name, *out, error);
    json_decref(parsed);
    return status;
}
