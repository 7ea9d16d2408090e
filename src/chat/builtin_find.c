// Finds rows of the tables, and reads their arguments.
#include "chat/rendering.h"

#include <string.h>

static const zr_builtin *find_row(const zr_builtin *rows, const char *name, size_t length)
{
    for (; rows->name; rows++)
        if (strlen(rows->name) == length && !memcmp(rows->name, name, length))
            return rows;
    return NULL;
}

const zr_builtin *zr_filter_find(const char *name, size_t length)
{
    const zr_builtin *const tables[] = {zr_filters_text, zr_filters_list, zr_filters_order,
                                        zr_filters_value};
    const zr_builtin *row = NULL;
    for (int i = 0; !row && i < ZR_COUNT(tables); i++)
        row = find_row(tables[i], name, length);
    return row;
}

const zr_builtin *zr_test_find(const char *name, size_t length)
{
    return find_row(zr_value_tests, name, length);
}

const zr_builtin *zr_function_find(const char *name, size_t length)
{
    return find_row(zr_functions, name, length);
}

const zr_builtin *zr_method_find(zr_chat_value_kind kind, const zr_chat_value *name)
{
    const zr_builtin *table = kind == ZR_KIND_TEXT   ? zr_methods_text
                              : kind == ZR_KIND_DICT ? zr_methods_dict
                              : kind == ZR_KIND_LIST ? zr_methods_list
                                                     : NULL;
    return table && name->kind == ZR_KIND_TEXT ? find_row(table, name->text.data, name->text.length)
                                               : NULL;
}

static bool is_left_out(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_MISSING || v->kind == ZR_KIND_NONE;
}

zero_status zr_argument_integer(zr_rendering *r, const zr_chat_value *v, int64_t otherwise,
                                int64_t *out)
{
    *out = otherwise;
    if (is_left_out(v))
        return ZERO_OK;
    if (!zr_value_is_integer(v))
        return zr_rendering_fail(r, "an integer is needed, not a %s", zr_value_type(v));
    *out = zr_value_integer(v);
    return ZERO_OK;
}

bool zr_argument_boolean(const zr_chat_value *v, bool otherwise)
{
    return v->kind == ZR_KIND_MISSING ? otherwise : zr_value_is_true(v);
}

zero_status zr_argument_text(zr_rendering *r, const zr_chat_value *v, const char *otherwise,
                             zr_chat_value *out)
{
    *out = *v;
    if (otherwise && is_left_out(v))
        *out = zr_value_of_text(otherwise, strlen(otherwise));
    return out->kind == ZR_KIND_TEXT
               ? ZERO_OK
               : zr_rendering_fail(r, "a text is needed, not a %s", zr_value_type(v));
}
