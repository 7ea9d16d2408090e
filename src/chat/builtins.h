// What a template may call that it does not define: filters, tests, methods and functions. Each is
// a row of a table.
#ifndef ZR_CHAT_BUILTINS_H
#define ZR_CHAT_BUILTINS_H

#include "chat/value.h"

typedef struct zr_rendering zr_rendering;

typedef struct zr_keyword {
    const char *name;
    size_t length;
    zr_chat_value value;
} zr_keyword;

typedef struct zr_call_values {
    zr_chat_value *at; // (count)
    int count;
    zr_keyword *named; // (named_count)
    int named_count;
} zr_call_values;

// `self` is what a filter or test is applied to, or whose method is called. For a row with names of
// parameters, at[i] is parameter i, of kind ZR_KIND_MISSING if it was not given.
typedef zero_status zr_builtin_call(zr_rendering *r, const zr_chat_value *self,
                                    const zr_call_values *values, zr_chat_value *out);

typedef struct zr_builtin {
    const char *name;
    // Names of parameters, with a space between them. NULL: all arguments are passed as they come.
    const char *parameters;
    int least;             // of them must be given
    zr_builtin_call *call; // NULL: the method would change its object, which templates may not
} zr_builtin;

enum { ZR_BUILTIN_PARAMETERS = 6 }; // the most that a row has

// Return the row of that name; NULL if there is none.
const zr_builtin *zr_filter_find(const char *name, size_t length);
const zr_builtin *zr_test_find(const char *name, size_t length);
const zr_builtin *zr_function_find(const char *name, size_t length);
const zr_builtin *zr_method_find(zr_chat_value_kind kind, const zr_chat_value *name);

// The tables, each in its file; a row without a name ends it.
extern const zr_builtin zr_filters_text[], zr_filters_list[], zr_filters_order[],
    zr_filters_value[];
extern const zr_builtin zr_methods_text[], zr_methods_dict[], zr_methods_list[];
extern const zr_builtin zr_value_tests[], zr_functions[];

// What a text's methods and the filters of texts share. `self` is a text.
zero_status zr_text_change_case(zr_rendering *r, const zr_chat_value *self, bool upper,
                                zr_chat_value *out);
zero_status zr_text_capitalize(zr_rendering *r, const zr_chat_value *self, zr_chat_value *out);
// sides: 1 left, 2 right, 3 both. `characters`: which to strip; MISSING or None: white space.
zero_status zr_text_strip(zr_rendering *r, const zr_chat_value *self,
                          const zr_chat_value *characters, int sides, zr_chat_value *out);
zero_status zr_text_replace(zr_rendering *r, const zr_chat_value *self, const zr_chat_value *from,
                            const zr_chat_value *to, int64_t most, zr_chat_value *out);
zero_status zr_text_split_lines(zr_rendering *r, const zr_chat_value *self, bool keep,
                                zr_chat_value *out);
zr_builtin_call zr_text_split_left, zr_text_split_right; // (sep, maxsplit)
zero_status zr_text_join(zr_rendering *r, const zr_chat_value *between, const zr_chat_value *items,
                         size_t count, zr_chat_value *out); // of items that are texts

// Gets the attribute that a filter names: "a.b.0" asks for an attribute or item after another.
zero_status zr_attribute_of(zr_rendering *r, const zr_chat_value *item, const zr_chat_value *name,
                            zr_chat_value *out);

// Checks the arguments against the row and calls it. `what` names it for messages.
zero_status zr_builtin_apply(zr_rendering *r, const zr_builtin *builtin, const zr_chat_value *self,
                             const zr_call_values *values, zr_chat_value *out);

// Arguments of a builtin. One that is missing (of an integer and a text: or None) is `otherwise`;
// one of another type is an error, except for a boolean, where the truth counts.
zero_status zr_argument_integer(zr_rendering *r, const zr_chat_value *v, int64_t otherwise,
                                int64_t *out);
bool zr_argument_boolean(const zr_chat_value *v, bool otherwise);
zero_status zr_argument_text(zr_rendering *r, const zr_chat_value *v, const char *otherwise,
                             zr_chat_value *out);

#endif
