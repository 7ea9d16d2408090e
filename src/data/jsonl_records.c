#include "data/jsonl_records.h"

#include <stdio.h>
#include <string.h>

// Finds the next line that is not blank; returns false at the end.
static bool next_line(zr_records *r, const char **line, size_t *length)
{
    // Some programs write a byte order mark.
    if (r->at == 0 && r->length >= 3 && !memcmp(r->text, "\xef\xbb\xbf", 3))
        r->at = 3;
    while (r->at < r->length) {
        const char *start = r->text + r->at, *end = memchr(start, '\n', r->length - r->at);
        *line = start;
        *length = end ? (size_t)(end - start) : r->length - r->at;
        r->at += *length + (end != NULL);
        r->line++;
        for (size_t i = 0; i < *length; i++)
            if (!strchr(" \t\r", start[i]) || !start[i])
                return true;
    }
    return false;
}

int64_t zr_records_skip(zr_records *r, size_t bytes)
{
    const char *line;
    size_t length, end = bytes < r->length - r->at ? r->at + bytes : r->length;
    int64_t count = 0;
    while (r->at < end && next_line(r, &line, &length))
        count++;
    return count;
}

// Returns a field; NULL if it is absent or null, because exports of several columns write null for
// fields that a record does not have.
static const json_t *get_field_unless_null(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

// Corrects the line in an error: the parser counts lines from the beginning of its input, which
// here is one line.
static zero_status place_error(const zr_records *r, zero_status status, zero_error *error)
{
    size_t width = strlen(r->path);
    if (error && !strncmp(error->message, r->path, width) &&
        !strncmp(error->message + width, ":1:", 3)) {
        zero_error moved = {.status = status};
        snprintf(moved.message, sizeof moved.message, "%.*s:%lld:%s", (int)width, r->path,
                 (long long)r->line, error->message + width + 3);
        *error = moved;
    }
    return status;
}

// Writes the keys of the object: "a", "b" and "c".
static void list_keys(const json_t *object, char *out, size_t size)
{
    const char *key;
    json_t *value;
    size_t at = 0;
    snprintf(out, size, "nothing");
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_null(value))
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s\"%.40s\"", at ? ", " : "", key);
        if (at + 64 > size)
            return;
    }
}

static zero_status fail_missing(const zr_records *r, const json_t *object, const char *name,
                                zero_error *error)
{
    char keys[256];
    list_keys(object, keys, sizeof keys);
    if (r->field)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the record has no field \"%s\" (--field); it has %s", name, r->field,
                       keys);
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: the record has neither \"messages\" nor \"prompt\" and \"completion\" nor "
                   "\"text\" (--field NAME reads another); it has %s",
                   name, keys);
}

static const char *type_name(const json_t *value)
{
    return json_is_object(value)    ? "an object"
           : json_is_array(value)   ? "a list"
           : json_is_number(value)  ? "a number"
           : json_is_boolean(value) ? "true or false"
                                    : "null";
}

static zero_status add_field(const json_t *object, const char *field, bool trained,
                             const char *name, zr_document *out, zero_error *error)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_string(value))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the field \"%s\" is %s, where text is needed",
                       name, field, value ? type_name(value) : "missing");
    zr_document_add(out, json_string_value(value), json_string_length(value), trained);
    return ZERO_OK;
}

// Appends a conversation of messages, or of those of a prompt and then those of its completion.
static zero_status add_conversation(const zr_records *r, const json_t *object, const char *name,
                                    zr_document *out, zero_error *error)
{
    const json_t *messages = get_field_unless_null(object, "messages"),
                 *prompt = get_field_unless_null(object, "prompt"),
                 *completion = get_field_unless_null(object, "completion");
    zr_conversation conversation = {
        .trained_from = messages ? 0 : json_array_size(prompt),
        .tools = get_field_unless_null(
            object, get_field_unless_null(object, "functions") ? "functions" : "tools"),
        .documents = get_field_unless_null(object, "documents"),
        .options = get_field_unless_null(object, "chat_template_kwargs"),
        .name = name};
    json_t *joined = messages ? NULL : json_array();
    bool failed = !messages && (!joined || json_array_extend(joined, (json_t *)prompt) ||
                                json_array_extend(joined, (json_t *)completion));
    conversation.messages = messages ? messages : joined;
    zero_status status =
        failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its messages", name)
               : zr_chat_render(r->chat, &conversation, out, error);
    json_decref(joined);
    return status;
}

static zero_status read_object(const zr_records *r, const json_t *object, zr_text_record *out,
                               zero_error *error)
{
    const json_t *messages = get_field_unless_null(object, "messages"),
                 *prompt = get_field_unless_null(object, "prompt"),
                 *completion = get_field_unless_null(object, "completion");
    out->ends = true;
    out->document.special = true;
    if (r->field || (!messages && !(prompt && completion))) {
        const char *field = r->field ? r->field : "text";
        const json_t *value = json_object_get(object, field);
        if (json_is_null(value)) // a record without text
            return ZERO_OK;
        return value ? add_field(object, field, true, out->name, &out->document, error)
                     : fail_missing(r, object, out->name, error);
    }
    out->ends = !messages && !json_is_array(prompt);
    if (messages || (json_is_array(prompt) && json_is_array(completion)))
        return add_conversation(r, object, out->name, &out->document, error);
    ZERO_TRY(add_field(object, "prompt", false, out->name, &out->document, error));
    return add_field(object, "completion", true, out->name, &out->document, error);
}

static zero_status read_line(zr_records *r, const char *line, size_t length, zr_text_record *out,
                             zero_error *error)
{
    json_t *object = NULL;
    zr_document_clear(&out->document);
    snprintf(out->name, sizeof out->name, "%s:%lld", r->path, (long long)r->line);
    if (length > ZR_RECORD_BYTES)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a record of %zu bytes, more than the %zu that one may have", out->name,
                       length, ZR_RECORD_BYTES);
    zero_status status = zr_json_parse(line, length, r->path, &object, error);
    if (status != ZERO_OK)
        return place_error(r, status, error);
    status = json_is_object(object)
                 ? read_object(r, object, out, error)
                 : zr_fail(error, ZERO_ERR_DATA, "%s: the record is %s, where an object is needed",
                           out->name, json_is_string(object) ? "text" : type_name(object));
    json_decref(object);
    return status;
}

zero_status zr_records_next(zr_records *r, zr_text_record *out, bool *more, zero_error *error)
{
    const char *line;
    size_t length;
    zr_document_clear(&out->document);
    while ((*more = next_line(r, &line, &length))) {
        r->seen++;
        ZERO_TRY(read_line(r, line, length, out, error));
        if (out->document.text.length || out->document.text.failed)
            return ZERO_OK;
        r->empty++;
    }
    return ZERO_OK;
}
