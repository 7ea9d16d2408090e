// Filters of any value: default, int, float, round, abs, tojson.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zero_status filter_default(zr_rendering *r, const zr_chat_value *self,
                                  const zr_call_values *v, zr_chat_value *out)
{
    bool replaces = self->kind == ZR_KIND_UNDEFINED ||
                    (zr_argument_boolean(&v->at[1], false) && !zr_value_is_true(self));
    *out = !replaces                          ? *self
           : v->at[0].kind == ZR_KIND_MISSING ? zr_value_of_text("", 0)
                                              : v->at[0];
    return ZERO_OK;
}

// Reads a text as int() does: white space around it, a sign, digits with single underscores.
static bool read_integer(const zr_chat_value *text, int64_t base, int64_t *out)
{
    char digits[80];
    size_t at = zr_text_leading_spaces(text->text.data, text->text.length), count = 0;
    size_t end = text->text.length - zr_text_trailing_spaces(text->text.data, text->text.length);
    for (bool digit = false; at < end; at++) {
        char c = text->text.data[at];
        bool underscore = c == '_' && digit && at + 1 < end;
        digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!digit && !underscore && !(count == 0 && (c == '-' || c == '+')))
            return false;
        if (underscore)
            continue;
        if (count + 1 == sizeof digits)
            return false;
        digits[count++] = c;
    }
    char *stop;
    digits[count] = 0;
    errno = 0;
    *out = strtoll(digits, &stop, (int)base);
    return count && stop == digits + count && stop != digits && !errno;
}

// Cuts off the fraction. *large: the number is one, but does not fit.
static bool whole_of_real(double value, int64_t *out, bool *large)
{
    *large = isfinite(value) && !(fabs(value) < 9.2e18);
    if (!isfinite(value) || *large)
        return false;
    *out = (int64_t)value;
    return true;
}

static zero_status filter_int(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int64_t base, value;
    ZERO_TRY(zr_argument_integer(r, &v->at[1], 10, &base));
    if (base < 2 || base > 36)
        return zr_rendering_fail(r, "int: a base of %lld", (long long)base);
    bool read = zr_value_is_integer(self), large = false;
    if (read)
        value = zr_value_integer(self);
    else if (self->kind == ZR_KIND_REAL)
        read = whole_of_real(self->real, &value, &large);
    else if (self->kind == ZR_KIND_TEXT)
        read = read_integer(self, base, &value) ||
               whole_of_real(zr_text_to_real(self->text.data, self->text.length), &value, &large);
    else if (self->kind == ZR_KIND_UNDEFINED)
        return zr_rendering_fail(r, "\"%.*s\" is undefined, and its int is asked for",
                                 (int)self->text.length, self->text.data);
    if (large)
        return zr_rendering_fail(r, "an integer that does not fit 64 bits");
    *out = read                               ? zr_value_of_integer(value)
           : v->at[0].kind == ZR_KIND_MISSING ? zr_value_of_integer(0)
                                              : v->at[0];
    return ZERO_OK;
}

static zero_status filter_float(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    double value = zr_value_is_number(self) ? zr_value_real(self) : NAN;
    if (self->kind == ZR_KIND_TEXT) {
        size_t from = zr_text_leading_spaces(self->text.data, self->text.length),
               after = zr_text_trailing_spaces(self->text.data, self->text.length);
        value = from + after < self->text.length
                    ? zr_text_to_real(self->text.data + from, self->text.length - from - after)
                    : NAN;
    } else if (self->kind == ZR_KIND_UNDEFINED) {
        return zr_rendering_fail(r, "\"%.*s\" is undefined, and its float is asked for",
                                 (int)self->text.length, self->text.data);
    }
    *out = value == value || self->kind == ZR_KIND_REAL ? zr_value_of_real(value)
           : v->at[0].kind == ZR_KIND_MISSING           ? zr_value_of_real(0)
                                                        : v->at[0];
    return ZERO_OK;
}

// Rounds to decimals as Python's round does: by the digits of the exact value, halves to even.
static double round_to(double value, int64_t decimals)
{
    char text[512];
    if (decimals > 300 || !isfinite(value))
        return value;
    if (decimals < 0) {
        double unit = pow(10, (double)-ZR_MAX(decimals, -400));
        return isfinite(unit) ? nearbyint(value / unit) * unit : 0;
    }
    snprintf(text, sizeof text, "%.*f", (int)decimals, value);
    return strtod(text, NULL);
}

static zero_status filter_round(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    int64_t decimals;
    zr_chat_value method;
    ZERO_TRY(zr_argument_integer(r, &v->at[0], 0, &decimals));
    ZERO_TRY(zr_argument_text(r, &v->at[1], "common", &method));
    bool common = zr_value_text_is(&method, "common"), up = zr_value_text_is(&method, "ceil");
    if (!zr_value_is_number(self))
        return zr_rendering_fail(r, "round of a %s", zr_value_type(self));
    if (!common && !up && !zr_value_text_is(&method, "floor"))
        return zr_rendering_fail(r, "round: the method must be common, ceil or floor");
    if (common && zr_value_is_integer(self) && decimals >= 0) {
        *out = zr_value_of_integer(zr_value_integer(self));
        return ZERO_OK;
    }
    double value = zr_value_real(self), unit = pow(10, (double)decimals);
    value =
        common ? round_to(value, decimals) : (up ? ceil(value * unit) : floor(value * unit)) / unit;
    if (common && zr_value_is_integer(self) && !(fabs(value) < 9.2e18))
        return zr_rendering_fail(r, "an integer that does not fit 64 bits");
    *out = common && zr_value_is_integer(self) ? zr_value_of_integer((int64_t)value)
                                               : zr_value_of_real(value);
    return ZERO_OK;
}

static zero_status filter_abs(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    zr_chat_value sign = zr_value_of_integer(-1);
    if (!zr_value_is_number(self))
        return zr_rendering_fail(r, "abs of a %s", zr_value_type(self));
    if (self->kind == ZR_KIND_REAL) {
        *out = zr_value_of_real(fabs(self->real));
        return ZERO_OK;
    }
    if (zr_value_integer(self) < 0)
        return zr_operate(r, ZR_OP_MULTIPLY, self, &sign, out);
    *out = zr_value_of_integer(zr_value_integer(self));
    return ZERO_OK;
}

static zero_status read_separators(zr_rendering *r, const zr_chat_value *v, zr_tojson_form *form)
{
    zr_chat_value *items;
    size_t count;
    form->item_separator = form->indent ? zr_value_of_text(",", 1) : zr_value_of_text(", ", 2);
    form->key_separator = zr_value_of_text(": ", 2);
    if (v->kind == ZR_KIND_MISSING || v->kind == ZR_KIND_NONE)
        return ZERO_OK;
    ZERO_TRY(zr_value_iterate(r, v, &items, &count));
    if (count != 2)
        return zr_rendering_fail(r, "tojson: %zu separators, two are needed", count);
    ZERO_TRY(zr_argument_text(r, &items[0], NULL, &form->item_separator));
    return zr_argument_text(r, &items[1], NULL, &form->key_separator);
}

static zero_status filter_tojson(zr_rendering *r, const zr_chat_value *self,
                                 const zr_call_values *v, zr_chat_value *out)
{
    zr_chat_value indent = v->at[1], space = zr_value_of_text(" ", 1), count;
    zr_buffer text = {0};
    zr_tojson_form form = {.ascii = zr_argument_boolean(&v->at[0], false),
                           .sorted = zr_argument_boolean(&v->at[3], false)};
    if (zr_value_is_integer(&indent)) {
        count = indent;
        ZERO_TRY(zr_operate(r, ZR_OP_MULTIPLY, &space, &count, &indent));
    }
    if (indent.kind != ZR_KIND_MISSING && indent.kind != ZR_KIND_NONE) {
        ZERO_TRY(zr_argument_text(r, &indent, NULL, &indent));
        form.indent = indent.text.data;
        form.indent_length = indent.text.length;
    }
    ZERO_TRY(read_separators(r, &v->at[2], &form));
    zero_status status = zr_value_append_json(r, self, &form, 0, &text);
    if (status == ZERO_OK)
        return zr_text_of_buffer(r, &text, out);
    zr_buffer_free(&text);
    return status;
}

const zr_builtin zr_filters_value[] = {
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"round", "precision method", 0, filter_round},
    {"abs", "", 0, filter_abs},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {0},
};
