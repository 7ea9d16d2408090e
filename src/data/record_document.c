// What becomes of a record by its shape: text, a prompt and its completion, or a conversation.
//
// Turns (a question and its answer) are a conversation where the model has a chat template. A model
// without one gets them as text: Alpaca's instructions in Alpaca's words, all others line by line.
#include "data/record_document.h"
#include "data/record_turns.h"

#include <stdio.h>
#include <string.h>

typedef struct making {
    const zr_record_reading *reading;
    const zr_record_shape *shape;
    const json_t *record;
    zr_document *out;
} making;

const char *zr_record_type_name(const json_t *value)
{
    return !value                   ? "missing"
           : json_is_string(value)  ? "text"
           : json_is_object(value)  ? "an object"
           : json_is_array(value)   ? "a list"
           : json_is_number(value)  ? "a number"
           : json_is_boolean(value) ? "true or false"
                                    : "null";
}

static const json_t *get(const making *m, const char *key)
{
    return key ? zr_record_get(m->reading->map, m->record, key) : NULL;
}

static zero_status need_text(const making *m, const char *key, const json_t *value,
                             zero_error *error)
{
    if (!value || json_is_string(value))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA, "%s: the field \"%s\" is %s, where text is needed",
                   m->reading->name, zr_record_field(m->reading->map, key),
                   zr_record_type_name(value));
}

static void add_text(const making *m, const json_t *text, bool trained)
{
    zr_document_add(m->out, json_string_value(text), json_string_length(text), trained);
}

static void add_words(const making *m, const char *words)
{
    zr_document_add(m->out, words, strlen(words), false);
}

static bool is_empty(const json_t *text) { return !text || !json_string_length(text); }

// ---- records that have no text ------------------------------------------------------------------

void zr_record_list_fields(const json_t *record, zr_buffer *out)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)record, key, value)
    {
        if (!json_is_null(value) && out->length < 192)
            zr_buffer_printf(out, "%s\"%.40s\"", out->length ? ", " : "", key);
    }
    if (!out->length)
        zr_buffer_printf(out, "nothing");
}

// Returns the field that holds a list of objects, which may be the records that were meant.
static const char *find_inner_records(const json_t *record)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)record, key, value)
    {
        if (json_is_object(json_array_get(value, 0)))
            return key;
    }
    return NULL;
}

// Returns the first field that the map names and the record lacks.
static const struct zr_record_key *find_lacking(const making *m)
{
    const zr_record_map *map = m->reading->map;
    for (int i = 0; map && i < map->count; i++) {
        const char *key = map->keys[i].key;
        bool needed = !strcmp(key, map->shape->asks) ||
                      (map->shape->answers && !strcmp(key, map->shape->answers));
        if (needed && !get(m, key))
            return &map->keys[i];
    }
    return NULL;
}

static zero_status fail_no_shape(const making *m, zero_error *error)
{
    const struct zr_record_key *lacking = find_lacking(m);
    const char *inner = find_inner_records(m->record), *name = m->reading->name;
    zr_buffer fields = {0}, known = {0};
    zero_status status;
    zr_record_list_fields(m->record, &fields);
    zr_record_shapes_write(&known);
    if (fields.failed || known.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory to name its fields", name);
    else if (lacking && m->reading->map->named)
        status =
            zr_fail(error, ZERO_ERR_DATA, "%s: the record has no field \"%s\" (--field); it has %s",
                    name, lacking->field, fields.data);
    else if (lacking)
        status = zr_fail(error, ZERO_ERR_DATA,
                         "%s: the record has no field \"%s\" (--map %s=%s); it has %s", name,
                         lacking->field, lacking->key, lacking->field, fields.data);
    else
        status = zr_fail(error, ZERO_ERR_DATA,
                         "%s: the record has neither %s (--field NAME and --map KEY=FIELD,... name "
                         "others); it has %s%s%s%s",
                         name, known.data, fields.data,
                         inner ? ". If the records are in that list, write it alone: jq '.[\"" : "",
                         inner ? inner : "", inner ? "\"]' FILE > records.json" : "");
    zr_buffer_free(&fields);
    zr_buffer_free(&known);
    return status;
}

// ---- records that are more than what is read ---------------------------------------------------

// Fields without which a record says something else. A map does not name them: then they are meant
// to be left out.
static const struct {
    const char *key, *what, *preference; // preference: the one that trains on it; NULL
} others[] = {
    {"chosen", "pairs of answers, of which one is preferred", "dpo"},
    {"rejected", "pairs of answers, of which one is preferred", "dpo"},
    {"kto_tag", "answers that are wanted or not", "kto"},
    {"label", "answers that are wanted or not", "kto"},
    {"images", "images"},
    {"image", "images"},
    {"videos", "videos"},
    {"video", "videos"},
    {"audios", "sound"},
    {"audio", "sound"},
};

// A label that is no flag is something of the set's own, and so is an empty list.
static bool says_more(const char *key, const json_t *value)
{
    bool flag = !strcmp(key, "label") || !strcmp(key, "kto_tag");
    return flag ? json_is_boolean(value)
                : value && !json_is_null(value) &&
                      !(json_is_array(value) && !json_array_size(value)) &&
                      !(json_is_string(value) && !json_string_length(value));
}

// Says how such a record is trained on.
static void name_way(int other, char *out, size_t size)
{
    if (others[other].preference)
        snprintf(out, size, "is what --preference %s does", others[other].preference);
    else
        snprintf(out, size, "is not built");
}

static zero_status refuse_other(const making *m, int other, zero_error *error)
{
    const char *key = others[other].key, *what = others[other].what;
    char way[64];
    name_way(other, way, sizeof way);
    if (!m->shape)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: the record has \"%s\": training on %s %s; --map names the fields to "
                       "train on otherwise (--map prompt=prompt,completion=chosen)",
                       m->reading->name, key, what, way);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "%s: the record has \"%s\": training on %s %s; to train on its %s alone, name "
                   "the fields (--map %s=%s%s)",
                   m->reading->name, key, what, way, m->shape->asks, m->shape->asks, m->shape->asks,
                   m->shape->answers ? ",..." : "");
}

static zero_status refuse_others(const making *m, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(others) && !m->reading->map; i++)
        if (says_more(others[i].key, json_object_get(m->record, others[i].key)))
            return refuse_other(m, i, error);
    return ZERO_OK;
}

// ---- conversations ------------------------------------------------------------------------------

static bool begins_with_system(const json_t *messages)
{
    const char *role = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    return role && !strcmp(role, "system");
}

// The text before all turns, under either of its keys.
static const char *system_key(const making *m)
{
    return get(m, "system") ? "system" : "system_prompt";
}

// Puts the record's own system text before messages that have none.
static zero_status add_system(const making *m, json_t *messages, size_t *trained_from,
                              zero_error *error)
{
    const json_t *system = get(m, system_key(m));
    ZERO_TRY(need_text(m, system_key(m), system, error));
    if (is_empty(system) || begins_with_system(messages))
        return ZERO_OK;
    json_t *message = json_pack("{s:s, s:O}", "role", "system", "content", system);
    if (!message || json_array_insert_new(messages, 0, message))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its messages", m->reading->name);
    *trained_from += *trained_from > 0;
    return ZERO_OK;
}

static zero_status render(const making *m, json_t *messages, size_t trained_from, zero_error *error)
{
    json_t *tools = NULL;
    const char *name = m->reading->name;
    ZERO_TRY(add_system(m, messages, &trained_from, error));
    ZERO_TRY(
        zr_turns_tools(get(m, get(m, "functions") ? "functions" : "tools"), name, &tools, error));
    const zr_conversation conversation = {.messages = messages,
                                          .trained_from = trained_from,
                                          .tools = tools,
                                          .documents = get(m, "documents"),
                                          .options = get(m, "chat_template_kwargs"),
                                          .name = name};
    zero_status status = zr_chat_render(m->reading->chat, &conversation, m->out, error);
    json_decref(tools);
    return status;
}

static zero_status add_lists(const making *m, json_t *messages, const json_t *first,
                             const json_t *second, zero_error *error)
{
    ZERO_TRY(zr_turns_add_list(messages, first, m->reading->name, error));
    ZERO_TRY(zr_turns_add_list(messages, second, m->reading->name, error));
    return render(m, messages, second ? json_array_size(first) : 0, error);
}

// Appends what the user says: the field that asks and, on lines of its own, what that is about.
static zero_status add_question(const making *m, json_t *messages, zero_error *error)
{
    const json_t *asks = get(m, m->shape->asks), *input = get(m, m->shape->input);
    zr_buffer text = {0};
    zr_buffer_append(&text, json_string_value(asks), json_string_length(asks));
    if (!is_empty(asks) && !is_empty(input))
        zr_buffer_append(&text, "\n", 1);
    if (!is_empty(input))
        zr_buffer_append(&text, json_string_value(input), json_string_length(input));
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its text",
                                               m->reading->name)
                                     : zr_turns_add(messages, "user", text.length ? text.data : "",
                                                    text.length, m->reading->name, error);
    zr_buffer_free(&text);
    return status;
}

static zero_status add_turns(const making *m, json_t *messages, zero_error *error)
{
    const json_t *answer = get(m, m->shape->answers);
    ZERO_TRY(zr_turns_add_history(messages, get(m, "history"), m->reading->name, error));
    ZERO_TRY(add_question(m, messages, error));
    ZERO_TRY(zr_turns_add(messages, "assistant", json_string_value(answer),
                          json_string_length(answer), m->reading->name, error));
    return render(m, messages, 0, error);
}

// Makes a conversation of lists of messages, or, if there are none, of a turn.
static zero_status add_conversation(const making *m, const json_t *first, const json_t *second,
                                    zero_error *error)
{
    json_t *messages = json_array();
    zero_status status = !messages ? zr_fail(error, ZERO_ERR_MEMORY,
                                             "%s: no memory for its messages", m->reading->name)
                         : first   ? add_lists(m, messages, first, second, error)
                                   : add_turns(m, messages, error);
    json_decref(messages);
    return status;
}

// ---- turns as text ------------------------------------------------------------------------------

static zero_status write_lines(const making *m, zero_error *error)
{
    const json_t *system = get(m, system_key(m)), *history = get(m, "history");
    const json_t *before[] = {system, get(m, m->shape->asks), get(m, m->shape->input)};
    ZERO_TRY(zr_turns_check_history(history, m->reading->name, error));
    for (int i = 0; i < ZR_COUNT(before); i++) {
        for (size_t t = 0; i == 1 && t < 2 * json_array_size(history); t++) {
            add_text(m, zr_turns_of_history(history, t / 2, t % 2), false);
            add_words(m, "\n");
        }
        if (is_empty(before[i]))
            continue;
        add_text(m, before[i], false);
        add_words(m, "\n");
    }
    add_text(m, get(m, m->shape->answers), true);
    return ZERO_OK;
}

#define TASK "Below is an instruction that describes a task"
#define ANSWER ". Write a response that appropriately completes the request."

static void write_section(const making *m, const char *title, const json_t *text)
{
    add_words(m, title);
    add_text(m, text, false);
}

// Alpaca's words, with the line breaks of LLaMA-Factory and axolotl.
static zero_status write_instruction(const making *m, zero_error *error)
{
    const json_t *system = get(m, system_key(m)), *history = get(m, "history"),
                 *asks = get(m, m->shape->asks), *input = get(m, m->shape->input);
    if (is_empty(asks)) {
        asks = input;
        input = NULL;
    }
    ZERO_TRY(zr_turns_check_history(history, m->reading->name, error));
    if (is_empty(system))
        add_words(m, is_empty(input) ? TASK ANSWER
                                     : TASK ", paired with an input that provides further "
                                            "context" ANSWER);
    else
        add_text(m, system, false);
    for (size_t t = 0; t < json_array_size(history); t++) {
        write_section(m, "\n\n### Instruction:\n", zr_turns_of_history(history, t, false));
        write_section(m, "\n\n### Response:\n", zr_turns_of_history(history, t, true));
    }
    write_section(m, "\n\n### Instruction:\n", asks);
    if (!is_empty(input))
        write_section(m, "\n\n### Input:\n", input);
    add_words(m, "\n\n### Response:\n");
    add_text(m, get(m, m->shape->answers), true);
    return ZERO_OK;
}

// ---- shapes -------------------------------------------------------------------------------------

static zero_status read_messages(const making *m, zr_record_made *made, zero_error *error)
{
    const json_t *list = get(m, m->shape->asks);
    if (!json_is_array(list) || !json_array_size(list))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the field \"%s\" is %s: it must be a list of at least one message",
                       m->reading->name, zr_record_field(m->reading->map, m->shape->asks),
                       json_is_array(list) ? "an empty list" : zr_record_type_name(list));
    made->ends = false;
    return add_conversation(m, list, NULL, error);
}

static zero_status read_turn(const making *m, zr_record_made *made, zero_error *error)
{
    const char *keys[] = {m->shape->asks, m->shape->answers, m->shape->input, system_key(m)};
    for (int i = 0; i < ZR_COUNT(keys); i++)
        ZERO_TRY(need_text(m, keys[i], get(m, keys[i]), error));
    if (is_empty(get(m, m->shape->asks)) && is_empty(get(m, m->shape->answers)))
        return ZERO_OK;
    made->plain = !zr_chat_format_name(m->reading->chat);
    made->ends = made->plain;
    return !made->plain                              ? add_conversation(m, NULL, NULL, error)
           : m->shape->kind == ZR_RECORD_INSTRUCTION ? write_instruction(m, error)
                                                     : write_lines(m, error);
}

static zero_status read_pair(const making *m, zr_record_made *made, zero_error *error)
{
    const json_t *prompt = get(m, m->shape->asks), *completion = get(m, m->shape->answers);
    if (json_is_array(prompt) && json_is_array(completion)) {
        made->ends = false;
        return add_conversation(m, prompt, completion, error);
    }
    if (m->shape->kind != ZR_RECORD_PAIR)
        return read_turn(m, made, error);
    ZERO_TRY(need_text(m, m->shape->asks, prompt, error));
    ZERO_TRY(need_text(m, m->shape->answers, completion, error));
    add_text(m, prompt, false);
    add_text(m, completion, true);
    return ZERO_OK;
}

static zero_status read_text(const making *m, zero_error *error)
{
    const json_t *text = get(m, m->shape->asks);
    ZERO_TRY(need_text(m, m->shape->asks, text, error));
    if (text)
        add_text(m, text, true);
    return ZERO_OK;
}

zero_status zr_record_document(const zr_record_reading *reading, const json_t *record,
                               zr_document *out, zr_record_made *made, zero_error *error)
{
    const making m = {.reading = reading,
                      .shape = zr_record_shape_of(reading->map, record),
                      .record = record,
                      .out = out};
    *made = (zr_record_made){.ends = true};
    out->special = true;
    if (!m.shape || m.shape->kind != ZR_RECORD_TEXT)
        ZERO_TRY(refuse_others(&m, error));
    if (!m.shape)
        return fail_no_shape(&m, error);
    switch (m.shape->kind) {
    case ZR_RECORD_MESSAGES: return read_messages(&m, made, error);
    case ZR_RECORD_TEXT: return read_text(&m, error);
    default: return read_pair(&m, made, error);
    }
}
