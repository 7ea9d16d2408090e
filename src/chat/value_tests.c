// Tests: x is defined, x is string, x is divisibleby 3, ...
#include "chat/rendering.h"

#include <string.h>

#define KIND_TEST(name, condition)                                                                 \
    static zero_status name(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,   \
                            zr_chat_value *out)                                                    \
    {                                                                                              \
        *out = zr_value_of_boolean(condition);                                                     \
        return ZERO_OK;                                                                            \
    }

static bool has_items(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_UNDEFINED ||
           (v->kind >= ZR_KIND_TEXT && v->kind <= ZR_KIND_GENERATOR);
}

// Has a length and is subscriptable.
static bool is_sequence(const zr_chat_value *v)
{
    return has_items(v) && v->kind != ZR_KIND_VIEW && v->kind != ZR_KIND_GENERATOR;
}

static bool is_callable(const zr_chat_value *v)
{
    return v->kind == ZR_KIND_FUNCTION || v->kind == ZR_KIND_METHOD || v->kind == ZR_KIND_MACRO ||
           v->kind == ZR_KIND_UNDEFINED || v->kind == ZR_KIND_LOOP;
}

KIND_TEST(is_defined, self->kind != ZR_KIND_UNDEFINED)
KIND_TEST(is_undefined, self->kind == ZR_KIND_UNDEFINED)
KIND_TEST(is_none, self->kind == ZR_KIND_NONE)
KIND_TEST(is_string, self->kind == ZR_KIND_TEXT)
KIND_TEST(is_mapping, self->kind == ZR_KIND_DICT)
KIND_TEST(is_number, zr_value_is_number(self))
KIND_TEST(is_integer, self->kind == ZR_KIND_INTEGER)
KIND_TEST(is_float, self->kind == ZR_KIND_REAL)
KIND_TEST(is_boolean, self->kind == ZR_KIND_BOOLEAN)
KIND_TEST(is_true, self->kind == ZR_KIND_BOOLEAN && self->boolean)
KIND_TEST(is_false, self->kind == ZR_KIND_BOOLEAN && !self->boolean)
KIND_TEST(is_iterable, has_items(self))
KIND_TEST(is_a_sequence, is_sequence(self))
KIND_TEST(can_be_called, is_callable(self))

// Tests the rest of a division.
static zero_status test_rest(zr_rendering *r, const zr_chat_value *self, int64_t by, int64_t rest,
                             zr_chat_value *out)
{
    zr_chat_value divisor = zr_value_of_integer(by), wanted = zr_value_of_integer(rest), found;
    bool equal;
    if (!zr_value_is_number(self))
        return zr_rendering_fail(r, "a test of the rest of a %s", zr_value_type(self));
    ZERO_TRY(zr_operate(r, ZR_OP_MODULO, self, &divisor, &found));
    ZERO_TRY(zr_value_equal(r, &found, &wanted, &equal));
    *out = zr_value_of_boolean(equal);
    return ZERO_OK;
}

static zero_status is_odd(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                          zr_chat_value *out)
{
    return test_rest(r, self, 2, 1, out);
}

static zero_status is_even(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                           zr_chat_value *out)
{
    return test_rest(r, self, 2, 0, out);
}

static zero_status is_divisible(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                                zr_chat_value *out)
{
    int64_t by;
    ZERO_TRY(zr_argument_integer(r, &v->at[0], 0, &by));
    return test_rest(r, self, by, 0, out);
}

static zero_status is_equal(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                            zr_chat_value *out)
{
    bool equal;
    ZERO_TRY(zr_value_equal(r, self, &v->at[0], &equal));
    *out = zr_value_of_boolean(equal);
    return ZERO_OK;
}

static zero_status is_unequal(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    bool equal;
    ZERO_TRY(zr_value_equal(r, self, &v->at[0], &equal));
    *out = zr_value_of_boolean(!equal);
    return ZERO_OK;
}

static zero_status compare_with(zr_rendering *r, const zr_chat_value *self,
                                const zr_chat_value *other, const char *name, int *sign)
{
    for (int i = 0; i < 2; i++) {
        const zr_chat_value *v = i ? other : self;
        if (v->kind == ZR_KIND_UNDEFINED)
            return zr_rendering_fail(r, "\"%.*s\" is undefined, and compared", (int)v->text.length,
                                     v->text.data);
    }
    return zr_value_compare(r, self, other, name, sign);
}

static zero_status is_less(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                           zr_chat_value *out)
{
    int sign;
    ZERO_TRY(compare_with(r, self, &v->at[0], "<", &sign));
    *out = zr_value_of_boolean(sign < 0);
    return ZERO_OK;
}

static zero_status is_less_or_equal(zr_rendering *r, const zr_chat_value *self,
                                    const zr_call_values *v, zr_chat_value *out)
{
    int sign;
    ZERO_TRY(compare_with(r, self, &v->at[0], "<=", &sign));
    *out = zr_value_of_boolean(sign <= 0);
    return ZERO_OK;
}

static zero_status is_greater(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                              zr_chat_value *out)
{
    int sign;
    ZERO_TRY(compare_with(r, self, &v->at[0], ">", &sign));
    *out = zr_value_of_boolean(sign == 1);
    return ZERO_OK;
}

static zero_status is_greater_or_equal(zr_rendering *r, const zr_chat_value *self,
                                       const zr_call_values *v, zr_chat_value *out)
{
    int sign;
    ZERO_TRY(compare_with(r, self, &v->at[0], ">=", &sign));
    *out = zr_value_of_boolean(sign == 0 || sign == 1);
    return ZERO_OK;
}

static zero_status is_in(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                         zr_chat_value *out)
{
    bool contains;
    ZERO_TRY(zr_value_contains(r, &v->at[0], self, &contains));
    *out = zr_value_of_boolean(contains);
    return ZERO_OK;
}

// A text in capitals, or in small letters: it has letters, and no other case.
static zero_status test_case(zr_rendering *r, const zr_chat_value *self, bool upper,
                             zr_chat_value *out)
{
    zr_chat_value text, same, other;
    bool equal, differs;
    ZERO_TRY(zr_value_to_text(r, self, &text));
    ZERO_TRY(zr_text_change_case(r, &text, upper, &same));
    ZERO_TRY(zr_text_change_case(r, &text, !upper, &other));
    ZERO_TRY(zr_value_equal(r, &text, &same, &equal));
    ZERO_TRY(zr_value_equal(r, &text, &other, &differs));
    *out = zr_value_of_boolean(equal && !differs);
    return ZERO_OK;
}

static zero_status is_lower(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                            zr_chat_value *out)
{
    return test_case(r, self, false, out);
}

static zero_status is_upper(zr_rendering *r, const zr_chat_value *self, const zr_call_values *v,
                            zr_chat_value *out)
{
    return test_case(r, self, true, out);
}

const zr_builtin zr_value_tests[] = {
    {"defined", "", 0, is_defined},
    {"undefined", "", 0, is_undefined},
    {"none", "", 0, is_none},
    {"string", "", 0, is_string},
    {"mapping", "", 0, is_mapping},
    {"number", "", 0, is_number},
    {"integer", "", 0, is_integer},
    {"float", "", 0, is_float},
    {"boolean", "", 0, is_boolean},
    {"true", "", 0, is_true},
    {"false", "", 0, is_false},
    {"iterable", "", 0, is_iterable},
    {"sequence", "", 0, is_a_sequence},
    {"callable", "", 0, can_be_called},
    {"odd", "", 0, is_odd},
    {"even", "", 0, is_even},
    {"divisibleby", "num", 1, is_divisible},
    {"eq", "b", 1, is_equal},
    {"equalto", "b", 1, is_equal},
    {"==", "b", 1, is_equal},
    {"ne", "b", 1, is_unequal},
    {"!=", "b", 1, is_unequal},
    {"lt", "b", 1, is_less},
    {"lessthan", "b", 1, is_less},
    {"<", "b", 1, is_less},
    {"le", "b", 1, is_less_or_equal},
    {"<=", "b", 1, is_less_or_equal},
    {"gt", "b", 1, is_greater},
    {"greaterthan", "b", 1, is_greater},
    {">", "b", 1, is_greater},
    {"ge", "b", 1, is_greater_or_equal},
    {">=", "b", 1, is_greater_or_equal},
    {"in", "seq", 1, is_in},
    {"lower", "", 0, is_lower},
    {"upper", "", 0, is_upper},
    {0},
};
