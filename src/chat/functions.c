// Functions of the environment: namespace, dict, range, raise_exception, strftime_now.
#include "chat/rendering.h"

#include <string.h>
#include <time.h>

enum { MOST_IN_RANGE = 100000 }; // Jinja's sandbox has the same bound

static zero_status put_all(zr_rendering *r, const zr_chat_value *from, zr_value_dict *dict)
{
    const zr_value_dict *members =
        from->kind == ZR_KIND_DICT ? zr_value_members(&r->memory, from) : NULL;
    if (!members)
        return from->kind == ZR_KIND_DICT
                   ? zr_rendering_no_memory(r)
                   : zr_rendering_fail(r, "a dictionary is made of a %s", zr_value_type(from));
    ZERO_TRY(zr_rendering_steps(r, members->count * members->count / 32 + members->count));
    for (size_t i = 0; i < members->count; i++)
        if (!zr_value_put(&r->memory, dict, &members->keys[i], &members->values[i]))
            return zr_rendering_no_memory(r);
    return ZERO_OK;
}

static zero_status make_dict(zr_rendering *r, const zr_call_values *v, zr_chat_value_kind kind,
                             zr_chat_value *out)
{
    *out = zr_value_new_dict(&r->memory, kind);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    if (v->count > 1)
        return zr_rendering_fail(r, "a dictionary is made of %d things", v->count);
    if (v->count)
        ZERO_TRY(put_all(r, &v->at[0], out->dict));
    for (int i = 0; i < v->named_count; i++) {
        zr_chat_value key = zr_value_of_text(v->named[i].name, v->named[i].length);
        if (!zr_value_put(&r->memory, out->dict, &key, &v->named[i].value))
            return zr_rendering_no_memory(r);
    }
    return ZERO_OK;
}

static zero_status call_dict(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                             zr_chat_value *out)
{
    return make_dict(r, v, ZR_KIND_DICT, out);
}

static zero_status call_namespace(zr_rendering *r, const zr_chat_value *self,
                                  const zr_call_values *v, zr_chat_value *out)
{
    ZERO_TRY(make_dict(r, v, ZR_KIND_NAMESPACE, out));
    for (size_t i = 0; i < out->dict->count; i++) {
        const zr_chat_value *key = &out->dict->keys[i];
        if (key->kind == ZR_KIND_TEXT && key->text.length && key->text.data[0] == '_')
            return zr_rendering_fail(r, "the member \"%.*s\" of a namespace begins with _",
                                     (int)key->text.length, key->text.data);
    }
    return ZERO_OK;
}

static zero_status call_range(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t part[3] = {0, 0, 1}, length;
    for (int i = 0; i < v->count; i++) {
        if (!zr_value_is_integer(&v->at[i]) && v->at[i].kind != ZR_KIND_MISSING)
            return zr_rendering_fail(r, "range of a %s", zr_value_type(&v->at[i]));
        if (v->at[i].kind != ZR_KIND_MISSING)
            part[i] = zr_value_integer(&v->at[i]);
    }
    if (v->at[1].kind == ZR_KIND_MISSING) {
        part[1] = part[0];
        part[0] = 0;
    }
    if (!part[2] || part[2] == INT64_MIN || __builtin_sub_overflow(part[1], part[0], &length) ||
        length == INT64_MIN)
        return zr_rendering_fail(r, "range: its numbers are too large, or the step is 0");
    int64_t way = part[2] < 0 ? -length : length, step = part[2] < 0 ? -part[2] : part[2];
    int64_t count = way > 0 ? (way - 1) / step + 1 : 0;
    if (count > MOST_IN_RANGE)
        return zr_rendering_fail(r, "a range of %lld numbers, more than %d", (long long)count,
                                 MOST_IN_RANGE);
    zr_value_range *range = zr_value_memory_take(&r->memory, sizeof *range);
    if (!range)
        return zr_rendering_no_memory(r);
    *range = (zr_value_range){.start = part[0], .step = part[2], .count = count, .stop = part[1]};
    *out = (zr_chat_value){.kind = ZR_KIND_RANGE, .range = range};
    return ZERO_OK;
}

static zero_status call_raise_exception(zr_rendering *r, const zr_chat_value *self,
                                        const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value text;
    ZERO_TRY(zr_value_to_text(r, &v->at[0], &text));
    return zr_rendering_refuse(r, text.text.data, text.text.length);
}

static zero_status call_strftime_now(zr_rendering *r, const zr_chat_value *self,
                                     const zr_call_values *v, zr_chat_value *out)
{
    zr_template_date date = r->options->date;
    zr_chat_value format;
    char text[512], pattern[256];
    ZERO_TRY(zr_argument_text(r, &v->at[0], NULL, &format));
    if (!date.year)
        return zr_rendering_fail(r, "it asks for the date, and none is known here");
    if (format.text.length >= sizeof pattern - 1 || memchr(format.text.data, 0, format.text.length))
        return zr_rendering_fail(r, "strftime_now: a format of %zu bytes, or with a zero in it",
                                 format.text.length);
    // A time of no length is told from one that does not fit by a character in front.
    pattern[0] = '.';
    memcpy(pattern + 1, format.text.data, format.text.length);
    pattern[format.text.length + 1] = 0;
    struct tm time = {.tm_year = date.year - 1900, .tm_mon = date.month - 1, .tm_mday = date.day};
    timegm(&time); // finds the day of the week and of the year
    size_t length = strftime(text, sizeof text, pattern, &time);
    zr_buffer made = {0};
    if (!length)
        return zr_rendering_fail(r, "strftime_now: a date of more than %zu bytes", sizeof text);
    zr_buffer_append(&made, text + 1, length - 1);
    return zr_text_of_buffer(r, &made, out);
}

const zr_builtin zr_functions[] = {
    {"dict", NULL, 0, call_dict},
    {"namespace", NULL, 0, call_namespace},
    {"range", "start stop step", 1, call_range},
    {"raise_exception", "message", 1, call_raise_exception},
    {"strftime_now", "format", 1, call_strftime_now},
    {0},
};
