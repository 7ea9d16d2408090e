// + - * / // % ** on numbers, texts and lists, as in Python; an integer that leaves 64 bits is an
// error.
#include "chat/rendering.h"
#include "chat/unicode_text.h"

#include <math.h>
#include <string.h>

static const char *const signs[] = {
    [ZR_OP_ADD] = "+",    [ZR_OP_SUBTRACT] = "-",      [ZR_OP_MULTIPLY] = "*",
    [ZR_OP_DIVIDE] = "/", [ZR_OP_FLOOR_DIVIDE] = "//", [ZR_OP_MODULO] = "%",
    [ZR_OP_POWER] = "**"};

static zero_status fail_overflow(zr_rendering *r)
{
    return zr_rendering_fail(r, "an integer that does not fit 64 bits");
}

static bool power_of(int64_t base, int64_t exponent, int64_t *out)
{
    bool over = false;
    *out = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            over |= __builtin_mul_overflow(*out, base, out);
        if (exponent > 1)
            over |= __builtin_mul_overflow(base, base, &base);
    }
    return over;
}

static int64_t floor_quotient(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static zero_status operate_integers(zr_rendering *r, zr_operator operation, int64_t a, int64_t b,
                                    zr_chat_value *out)
{
    int64_t result = 0;
    bool over = false;
    switch (operation) {
    case ZR_OP_ADD: over = __builtin_add_overflow(a, b, &result); break;
    case ZR_OP_SUBTRACT: over = __builtin_sub_overflow(a, b, &result); break;
    case ZR_OP_MULTIPLY: over = __builtin_mul_overflow(a, b, &result); break;
    case ZR_OP_POWER: over = power_of(a, b, &result); break;
    default: // of the division
        over = a == INT64_MIN && b == -1;
        if (!over)
            result =
                operation == ZR_OP_MODULO ? a - floor_quotient(a, b) * b : floor_quotient(a, b);
    }
    *out = zr_value_of_integer(result);
    return over ? fail_overflow(r) : ZERO_OK;
}

static double floor_modulo(double a, double b)
{
    double rest = fmod(a, b);
    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static double operate_reals(zr_operator operation, double a, double b)
{
    switch (operation) {
    case ZR_OP_ADD: return a + b;
    case ZR_OP_SUBTRACT: return a - b;
    case ZR_OP_MULTIPLY: return a * b;
    case ZR_OP_DIVIDE: return a / b;
    case ZR_OP_MODULO: return floor_modulo(a, b);
    case ZR_OP_FLOOR_DIVIDE: return floor(a / b);
    default: return pow(a, b);
    }
}

static zero_status operate_numbers(zr_rendering *r, zr_operator operation, const zr_chat_value *a,
                                   const zr_chat_value *b, zr_chat_value *out)
{
    bool divides =
        operation == ZR_OP_DIVIDE || operation == ZR_OP_FLOOR_DIVIDE || operation == ZR_OP_MODULO;
    bool whole = zr_value_is_integer(a) && zr_value_is_integer(b) && operation != ZR_OP_DIVIDE &&
                 !(operation == ZR_OP_POWER && zr_value_integer(b) < 0);
    if ((divides && zr_value_real(b) == 0) ||
        (operation == ZR_OP_POWER && zr_value_real(a) == 0 && zr_value_real(b) < 0))
        return zr_rendering_fail(r, "a division by zero");
    if (whole)
        return operate_integers(r, operation, zr_value_integer(a), zr_value_integer(b), out);
    *out = zr_value_of_real(operate_reals(operation, zr_value_real(a), zr_value_real(b)));
    return ZERO_OK;
}

// Escapes a text for HTML, as adding it to one that is marked as safe does.
static zero_status escape_text(zr_rendering *r, const zr_chat_value *v, zr_chat_value *out)
{
    static const char marks[] = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    zr_buffer text = {0};
    for (size_t i = 0; i < v->text.length; i++) {
        const char *mark = v->text.data[i] ? strchr(marks, v->text.data[i]) : NULL;
        if (mark)
            zr_buffer_printf(&text, "%s", escapes[mark - marks]);
        else
            zr_buffer_append(&text, &v->text.data[i], 1);
    }
    return zr_text_of_buffer(r, &text, out);
}

static zero_status add_texts(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                             zr_chat_value *out)
{
    zr_chat_value left = *a, right = *b;
    bool safe = a->safe || b->safe;
    if (safe && !a->safe)
        ZERO_TRY(escape_text(r, a, &left));
    if (safe && !b->safe)
        ZERO_TRY(escape_text(r, b, &right));
    ZERO_TRY(zr_rendering_steps(r, right.text.length / 64));
    *out = left.text.length ? left : right;
    out->safe = safe;
    if (!left.text.length || !right.text.length)
        return ZERO_OK;
    char *text =
        zr_value_memory_text(&r->memory, left.text.data, left.text.length, right.text.length);
    if (!text)
        return zr_rendering_no_memory(r);
    memcpy(text + left.text.length, right.text.data, right.text.length);
    *out = zr_value_of_text(text, left.text.length + right.text.length);
    out->safe = safe;
    return ZERO_OK;
}

static zero_status add_lists(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                             zr_chat_value *out)
{
    const zr_value_list *left = zr_value_items(&r->memory, a),
                        *right = zr_value_items(&r->memory, b);
    if (!left || !right)
        return zr_rendering_no_memory(r);
    *out = zr_value_new_list(&r->memory, a->kind, left->count + right->count);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    ZERO_TRY(zr_rendering_steps(r, left->count + right->count));
    for (size_t i = 0; i < left->count; i++)
        zr_value_push(out, left->items[i]);
    for (size_t i = 0; i < right->count; i++)
        zr_value_push(out, right->items[i]);
    return ZERO_OK;
}

static zero_status repeat_text(zr_rendering *r, const zr_chat_value *v, size_t times,
                               zr_chat_value *out)
{
    size_t length = v->text.length;
    if (length && times > r->memory.limit / length) {
        r->memory.over = true;
        return zr_rendering_no_memory(r);
    }
    char *text = zr_value_memory_text(&r->memory, NULL, 0, length * times);
    if (!text)
        return zr_rendering_no_memory(r);
    ZERO_TRY(zr_rendering_steps(r, length * times / 64));
    for (size_t i = 0; length && i < times; i++)
        memcpy(text + i * length, v->text.data, length);
    *out = zr_value_of_text(text, length * times);
    out->safe = v->safe;
    return ZERO_OK;
}

static zero_status repeat_list(zr_rendering *r, const zr_chat_value *v, size_t times,
                               zr_chat_value *out)
{
    const zr_value_list *list = zr_value_items(&r->memory, v);
    if (!list)
        return zr_rendering_no_memory(r);
    if (list->count && times > (size_t)ZR_TEMPLATE_STEPS / list->count)
        times = (size_t)ZR_TEMPLATE_STEPS / list->count + 1; // too many steps
    ZERO_TRY(zr_rendering_steps(r, times * list->count));
    *out = zr_value_new_list(&r->memory, v->kind, times * list->count);
    if (out->kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (size_t i = 0; list->count && i < times; i++)
        for (size_t k = 0; k < list->count; k++)
            zr_value_push(out, list->items[k]);
    return ZERO_OK;
}

static bool is_sequence(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_TEXT || v->kind == ZR_KIND_LIST || v->kind == ZR_KIND_TUPLE;
}

static zero_status repeat(zr_rendering *r, const zr_chat_value *v, const zr_chat_value *times,
                          zr_chat_value *out)
{
    size_t count = zr_value_integer(times) < 0 ? 0 : (size_t)zr_value_integer(times);
    return v->kind == ZR_KIND_TEXT ? repeat_text(r, v, count, out) : repeat_list(r, v, count, out);
}

zero_status zr_operate(zr_rendering *r, zr_operator operation, const zr_chat_value *a,
                       const zr_chat_value *b, zr_chat_value *out)
{
    for (int i = 0; i < 2; i++) {
        const zr_chat_value *v = i ? b : a;
        if (v->kind == ZR_KIND_UNDEFINED)
            return zr_rendering_fail(r, "\"%.*s\" is undefined, and %s is applied to it",
                                     (int)v->text.length, v->text.data, signs[operation]);
    }
    if (zr_value_is_number(a) && zr_value_is_number(b))
        return operate_numbers(r, operation, a, b, out);
    if (operation == ZR_OP_ADD && a->kind == b->kind && is_sequence(a))
        return a->kind == ZR_KIND_TEXT ? add_texts(r, a, b, out) : add_lists(r, a, b, out);
    if (operation == ZR_OP_MULTIPLY && is_sequence(a) && zr_value_is_integer(b))
        return repeat(r, a, b, out);
    if (operation == ZR_OP_MULTIPLY && is_sequence(b) && zr_value_is_integer(a))
        return repeat(r, b, a, out);
    if (operation == ZR_OP_MODULO && a->kind == ZR_KIND_TEXT)
        return zr_rendering_fail(r, "a text with %% is not built: join the parts with ~");
    return zr_rendering_fail(r, "%s between %s and %s", signs[operation], zr_value_type(a),
                             zr_value_type(b));
}
