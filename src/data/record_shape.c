#include "data/record_shape.h"

#include <string.h>

static const zr_record_shape shapes[] = {
    {ZR_RECORD_MESSAGES, "messages"},
    {ZR_RECORD_MESSAGES, "conversations"},
    {ZR_RECORD_MESSAGES, "conversation"},
    {ZR_RECORD_PAIR, "prompt", "completion"},
    {ZR_RECORD_TURN, "user", "assistant", "input"},
    {ZR_RECORD_TURN, "prompt", "response"},
    {ZR_RECORD_INSTRUCTION, "instruction", "output", "input"},
    {ZR_RECORD_INSTRUCTION, "instruction", "response", "context"},
    {ZR_RECORD_TURN, "question", "answer"},
    {ZR_RECORD_TURN, "question", "response"},
    {ZR_RECORD_TURN, "query", "response"},
    {ZR_RECORD_TEXT, "text"},
};

enum { OF_MESSAGES = 1 << ZR_RECORD_MESSAGES, OF_PAIRS = 1 << ZR_RECORD_PAIR };
enum { OF_TURNS = 1 << ZR_RECORD_TURN | 1 << ZR_RECORD_INSTRUCTION };

// Keys that may stand next to those of a shape.
static const struct {
    const char *key;
    unsigned kinds; // bits of the kinds of shapes that read it
    bool own;       // a map that does not name it leaves it its own name
} others[] = {
    {"system", OF_MESSAGES | OF_TURNS},
    {"system_prompt", OF_MESSAGES | OF_TURNS},
    {"history", OF_TURNS},
    {"tools", OF_MESSAGES | OF_PAIRS | OF_TURNS, true},
    {"functions", OF_MESSAGES | OF_PAIRS | OF_TURNS, true},
    {"documents", OF_MESSAGES | OF_PAIRS | OF_TURNS, true},
    {"chat_template_kwargs", OF_MESSAGES | OF_PAIRS | OF_TURNS, true},
};

static bool is_key_of(const zr_record_shape *shape, const char *key)
{
    const char *own[] = {shape->asks, shape->answers, shape->input};
    for (int i = 0; i < ZR_COUNT(own); i++)
        if (own[i] && !strcmp(own[i], key))
            return true;
    for (int i = 0; i < ZR_COUNT(others); i++)
        if (!strcmp(others[i].key, key))
            return others[i].kinds >> shape->kind & 1;
    return false;
}

static bool keeps_name(const char *key)
{
    for (int i = 0; i < ZR_COUNT(others); i++)
        if (!strcmp(others[i].key, key))
            return others[i].own;
    return false;
}

void zr_record_shapes_write(zr_buffer *out)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        const char *before = !i ? "" : i + 1 == ZR_COUNT(shapes) ? " nor " : ", ";
        zr_buffer_printf(out, "%s\"%s\"", before, shapes[i].asks);
        if (shapes[i].answers)
            zr_buffer_printf(out, " with \"%s\"", shapes[i].answers);
    }
}

const char *zr_record_field(const zr_record_map *map, const char *key)
{
    for (int i = 0; map && i < map->count; i++)
        if (!strcmp(map->keys[i].key, key))
            return map->keys[i].field;
    return !map || keeps_name(key) ? key : NULL;
}

// A field of that very name comes before one that the name is the path of.
static const json_t *find_field(const zr_record_map *map, const json_t *record, const char *key)
{
    const char *field = zr_record_field(map, key);
    const json_t *value = field ? json_object_get(record, field) : NULL;
    return value || !field ? value : zr_json_get(record, field);
}

const json_t *zr_record_get(const zr_record_map *map, const json_t *record, const char *key)
{
    const json_t *value = find_field(map, record, key);
    return json_is_null(value) ? NULL : value;
}

static bool has_shape(const zr_record_map *map, const json_t *record, const zr_record_shape *shape)
{
    if (shape->kind == ZR_RECORD_TEXT)
        return find_field(map, record, shape->asks) != NULL;
    return zr_record_get(map, record, shape->asks) &&
           (!shape->answers || zr_record_get(map, record, shape->answers));
}

const char *zr_record_answer_key(const json_t *record)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        if (OF_TURNS >> shapes[i].kind & 1 && zr_record_get(NULL, record, shapes[i].asks))
            return shapes[i].answers;
    return NULL;
}

const zr_record_shape *zr_record_shape_of(const zr_record_map *map, const json_t *record)
{
    if (map)
        return has_shape(map, record, map->shape) ? map->shape : NULL;
    for (int i = 0; i < ZR_COUNT(shapes); i++)
        if (has_shape(NULL, record, &shapes[i]))
            return &shapes[i];
    return NULL;
}

// ---- maps ---------------------------------------------------------------------------------------

static bool is_mapped(const zr_record_map *map, const char *key)
{
    for (int i = 0; i < map->count; i++)
        if (!strcmp(map->keys[i].key, key))
            return true;
    return false;
}

static bool is_preference_key(const char *key)
{
    return !strcmp(key, ZR_RECORD_CHOSEN) || !strcmp(key, ZR_RECORD_REJECTED) ||
           !strcmp(key, ZR_RECORD_LABEL);
}

// Whether the map has every key that the shape needs, and none that it does not know. Two answers
// stand for the one of the shape, and may have their prompts within them.
static bool makes_shape(const zr_record_map *map, const zr_record_shape *shape)
{
    bool chosen = is_mapped(map, ZR_RECORD_CHOSEN), rejected = is_mapped(map, ZR_RECORD_REJECTED);
    for (int i = 0; i < map->count; i++)
        if (!is_key_of(shape, map->keys[i].key) && !is_preference_key(map->keys[i].key))
            return false;
    if (chosen || rejected)
        return chosen && rejected && !is_mapped(map, ZR_RECORD_LABEL) &&
               (map->count == 2 || is_mapped(map, shape->asks)) &&
               !(shape->answers && is_mapped(map, shape->answers));
    return is_mapped(map, shape->asks) && (!shape->answers || is_mapped(map, shape->answers));
}

static zero_status fail_map(const char *written, const char *what, const char *which,
                            zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "--map %s: %s%s; it is KEY=FIELD,KEY=FIELD,... such as "
                   "user=question,assistant=answer,system=context",
                   written, what, which);
}

static zero_status find_shape(const char *written, zr_record_map *map, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(shapes); i++) {
        if (!makes_shape(map, &shapes[i]))
            continue;
        map->shape = &shapes[i];
        map->preferring = is_mapped(map, ZR_RECORD_CHOSEN) || is_mapped(map, ZR_RECORD_LABEL);
        return ZERO_OK;
    }
    zr_buffer known = {0};
    zr_record_shapes_write(&known);
    zero_status status = zr_fail(error, ZERO_ERR_USAGE,
                                 "--map %s: its keys must be those of one shape of records, which "
                                 "these are neither of: %s (docs/data.md has what else each may "
                                 "have, and the keys of preferences)",
                                 written, known.failed ? "those of a record" : known.data);
    zr_buffer_free(&known);
    return status;
}

static zero_status parse_keys(const char *written, zr_record_map *map, zero_error *error)
{
    char *rest = map->text, *part;
    while ((part = strsep(&rest, ",")) != NULL) {
        char *equals = strchr(part, '=');
        if (!equals || equals == part || !equals[1])
            return fail_map(written, *part ? part : "a comma too much",
                            *part ? " is no KEY=FIELD" : "", error);
        *equals = 0;
        if (is_mapped(map, part))
            return fail_map(written, part, " is given twice", error);
        if (map->count == ZR_RECORD_MAPPED)
            return fail_map(written, "more keys than any shape of records has", "", error);
        map->keys[map->count++] = (struct zr_record_key){.key = part, .field = equals + 1};
    }
    return find_shape(written, map, error);
}

zero_status zr_record_map_parse(const char *written, zr_record_map *out, zero_error *error)
{
    *out = (zr_record_map){.text = zr_strdup(written, error)};
    if (!out->text)
        return ZERO_ERR_MEMORY;
    out->named = !strchr(written, '=');
    if (!out->named) {
        zero_status status = parse_keys(written, out, error);
        if (status != ZERO_OK)
            zr_record_map_free(out);
        return status;
    }
    out->keys[out->count++] = (struct zr_record_key){.key = "text", .field = out->text};
    out->shape = &shapes[ZR_COUNT(shapes) - 1];
    return ZERO_OK;
}

bool zr_record_map_labels(const zr_record_map *map)
{
    return map->shape->kind == ZR_RECORD_TEXT && map->count == 1 + !map->named &&
           (map->named || is_mapped(map, ZR_RECORD_LABEL));
}

void zr_record_map_free(zr_record_map *map)
{
    zr_free(map->text);
    *map = (zr_record_map){0};
}
