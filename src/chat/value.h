// The values of a template's variables: what Python has, as far as templates use it.
//
// A value is small and copied. Texts, lists and dictionaries lie in the memory of the rendering,
// and are never changed after they are made; a namespace alone is.
#ifndef ZR_CHAT_VALUE_H
#define ZR_CHAT_VALUE_H

#include "base/json.h"
#include "chat/value_memory.h"

typedef enum zr_chat_value_kind {
    ZR_KIND_MISSING, // an argument that was not given, a variable that was not set; no value
    ZR_KIND_UNDEFINED,
    ZR_KIND_NONE,
    ZR_KIND_BOOLEAN,
    ZR_KIND_INTEGER,
    ZR_KIND_REAL,
    ZR_KIND_TEXT,
    ZR_KIND_LIST,
    ZR_KIND_TUPLE,
    ZR_KIND_DICT,
    ZR_KIND_RANGE,
    ZR_KIND_VIEW,      // dict.items(), .keys(), .values(): iterable, with a length
    ZR_KIND_GENERATOR, // iterable once, without a length
    ZR_KIND_NAMESPACE,
    ZR_KIND_FUNCTION, // of the environment
    ZR_KIND_METHOD,   // of a text, list or dictionary
    ZR_KIND_MACRO,
    ZR_KIND_LOOP, // the variable `loop`
} zr_chat_value_kind;

typedef struct zr_value_list zr_value_list;
typedef struct zr_value_dict zr_value_dict;

typedef struct zr_chat_value {
    zr_chat_value_kind kind;
    bool safe; // TEXT: marked by |safe: adding a text to it escapes that text for HTML
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *data; // UTF-8; of UNDEFINED: what is not defined, for messages
            size_t length;
        } text;
        zr_value_list *list; // LIST, TUPLE, VIEW, GENERATOR
        zr_value_dict *dict; // DICT, NAMESPACE
        struct zr_value_range *range;
        struct zr_method_value *method;
        const struct zr_builtin *function;
        struct zr_macro_value *macro;
        struct zr_loop *loop;
    };
} zr_chat_value;

struct zr_value_list {
    const json_t *json;   // where its items are read from when they are first asked for; else NULL
    zr_chat_value *items; // (count)
    size_t count;
    const char *view; // VIEW: "dict_items", ...
    bool used;        // GENERATOR: its items are gone
};

struct zr_value_dict {
    const json_t *json;           // as in a list
    zr_chat_value *keys, *values; // (count) in the order in which they were added
    size_t count, capacity;
};

typedef struct zr_value_range {
    int64_t start, step, count;
    int64_t stop; // for its text
} zr_value_range;

static inline zr_chat_value zr_value_none(void) { return (zr_chat_value){.kind = ZR_KIND_NONE}; }
static inline zr_chat_value zr_value_of_boolean(bool b)
{
    return (zr_chat_value){.kind = ZR_KIND_BOOLEAN, .boolean = b};
}
static inline zr_chat_value zr_value_of_integer(int64_t i)
{
    return (zr_chat_value){.kind = ZR_KIND_INTEGER, .integer = i};
}
static inline zr_chat_value zr_value_of_real(double d)
{
    return (zr_chat_value){.kind = ZR_KIND_REAL, .real = d};
}
static inline zr_chat_value zr_value_of_text(const char *data, size_t length)
{
    return (zr_chat_value){.kind = ZR_KIND_TEXT, .text = {data, length}};
}
static inline zr_chat_value zr_value_undefined(const char *what, size_t length)
{
    return (zr_chat_value){.kind = ZR_KIND_UNDEFINED, .text = {what, length}};
}
static inline bool zr_value_is_integer(const zr_chat_value *v) // true and false are, too
{
    return v->kind == ZR_KIND_INTEGER || v->kind == ZR_KIND_BOOLEAN;
}
static inline int64_t zr_value_integer(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_BOOLEAN ? v->boolean : v->integer;
}
static inline bool zr_value_is_number(const zr_chat_value *v)
{
    return zr_value_is_integer(v) || v->kind == ZR_KIND_REAL;
}
static inline double zr_value_real(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_REAL ? v->real : (double)zr_value_integer(v);
}

zr_chat_value zr_value_of_json(zr_value_memory *memory, const json_t *json);
const char *zr_value_type(const zr_chat_value *v); // as Python names it: "str", "NoneType", ...
bool zr_value_is_true(const zr_chat_value *v);     // Python's truth
bool zr_value_text_is(const zr_chat_value *v, const char *text);

// Return what a list or dictionary has, read from its JSON if need be; NULL if there is no memory.
zr_value_list *zr_value_items(zr_value_memory *memory, const zr_chat_value *list);
zr_value_dict *zr_value_members(zr_value_memory *memory, const zr_chat_value *dict);

// Make a list (LIST, TUPLE, VIEW, GENERATOR) with room for `count` items, whose count is 0, and an
// empty DICT or NAMESPACE. Their kind is MISSING if there is no memory.
zr_chat_value zr_value_new_list(zr_value_memory *memory, zr_chat_value_kind kind, size_t count);
zr_chat_value zr_value_new_dict(zr_value_memory *memory, zr_chat_value_kind kind);
static inline void zr_value_push(zr_chat_value *list, zr_chat_value item)
{
    list->list->items[list->list->count++] = item;
}
// Adds a member or replaces it. Returns false if there is no memory.
bool zr_value_put(zr_value_memory *memory, zr_value_dict *dict, const zr_chat_value *key,
                  const zr_chat_value *value);
// Finds a member by a key that may be one (zr_value_is_key); NULL if there is none.
const zr_chat_value *zr_value_find(const zr_value_dict *dict, const zr_chat_value *key);
bool zr_value_is_key(const zr_chat_value *v); // hashable

#endif
