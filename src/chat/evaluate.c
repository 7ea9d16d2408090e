// Evaluates expressions.
#include "chat/rendering.h"

#include <string.h>

static zero_status evaluate_constant(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    *out = node->constant;
    return ZERO_OK;
}

static zero_status evaluate_name(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    const zr_template_name *name = &r->of->names[node->id];
    *out = zr_scope_find(r, node->id);
    if (out->kind == ZR_KIND_MISSING)
        *out = zr_value_undefined(name->text, name->length);
    return ZERO_OK;
}

static zero_status evaluate_list(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value item;
    zr_chat_value list =
        zr_value_new_list(&r->memory, node->kind == ZR_NODE_TUPLE ? ZR_KIND_TUPLE : ZR_KIND_LIST,
                          (size_t)node->count);
    if (list.kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < node->count; i++) {
        ZERO_TRY(zr_evaluate(r, node->items[i], &item));
        zr_value_push(&list, item);
    }
    *out = list;
    return ZERO_OK;
}

static zero_status evaluate_dict(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value key, value, dict = zr_value_new_dict(&r->memory, ZR_KIND_DICT);
    if (dict.kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < node->count; i += 2) {
        ZERO_TRY(zr_evaluate(r, node->items[i], &key));
        ZERO_TRY(zr_evaluate(r, node->items[i + 1], &value));
        r->at = node->items[i];
        if (!zr_value_is_key(&key))
            return zr_rendering_fail(r, "a %s cannot be a key", zr_value_type(&key));
        if (!zr_value_put(&r->memory, dict.dict, &key, &value))
            return zr_rendering_no_memory(r);
    }
    *out = dict;
    return ZERO_OK;
}

static zero_status evaluate_attribute(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value of;
    ZERO_TRY(zr_evaluate(r, node->left, &of));
    r->at = node;
    return zr_get_attribute(r, &of, &node->constant, out);
}

static zero_status evaluate_slice(zr_rendering *r, const zr_node *node, const zr_chat_value *of,
                                  zr_chat_value *out)
{
    const zr_node *parts[] = {node->left, node->right, node->other};
    zr_chat_value values[3];
    for (int i = 0; i < 3; i++) {
        values[i] = zr_value_none();
        if (parts[i])
            ZERO_TRY(zr_evaluate(r, parts[i], &values[i]));
    }
    r->at = node;
    return zr_get_slice(r, of, values, out);
}

static zero_status evaluate_item(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value of, key;
    ZERO_TRY(zr_evaluate(r, node->left, &of));
    if (node->right->kind == ZR_NODE_SLICE)
        return evaluate_slice(r, node->right, &of, out);
    ZERO_TRY(zr_evaluate(r, node->right, &key));
    r->at = node;
    return zr_get_item(r, &of, &key, out);
}

static zero_status evaluate_call(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value callee;
    zr_call_values values;
    ZERO_TRY(zr_evaluate(r, node->left, &callee));
    ZERO_TRY(zr_evaluate_arguments(r, &node->arguments, &values));
    r->at = node;
    return zr_call_value(r, &callee, &values, out);
}

zero_status zr_evaluate_filter(zr_rendering *r, const zr_node *node, const zr_chat_value *given,
                               zr_chat_value *out)
{
    zr_chat_value self;
    zr_call_values values;
    if (node->left && node->left->kind == ZR_NODE_FILTER) {
        ZERO_TRY(zr_rendering_enter(r));
        ZERO_TRY(zr_evaluate_filter(r, node->left, given, &self));
        r->levels--;
    } else if (node->left) {
        ZERO_TRY(zr_evaluate(r, node->left, &self));
    } else {
        self = *given;
    }
    ZERO_TRY(zr_evaluate_arguments(r, &node->arguments, &values));
    r->at = node;
    if (!node->builtin)
        return zr_rendering_fail(r, "the filter \"%.*s\" is not built",
                                 (int)node->constant.text.length, node->constant.text.data);
    return zr_builtin_apply(r, node->builtin, &self, &values, out);
}

static zero_status evaluate_filter(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    return zr_evaluate_filter(r, node, NULL, out);
}

static zero_status evaluate_test(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value self;
    zr_call_values values;
    ZERO_TRY(zr_evaluate(r, node->left, &self));
    ZERO_TRY(zr_evaluate_arguments(r, &node->arguments, &values));
    r->at = node;
    if (!node->builtin)
        return zr_rendering_fail(r, "the test \"%.*s\" is not built",
                                 (int)node->constant.text.length, node->constant.text.data);
    return zr_builtin_apply(r, node->builtin, &self, &values, out);
}

static zero_status evaluate_not(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value value;
    ZERO_TRY(zr_evaluate(r, node->left, &value));
    *out = zr_value_of_boolean(!zr_value_is_true(&value));
    return ZERO_OK;
}

static zero_status evaluate_sign(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value value;
    ZERO_TRY(zr_evaluate(r, node->left, &value));
    r->at = node;
    if (!zr_value_is_number(&value))
        return zr_rendering_fail(r, "a sign before a %s", zr_value_type(&value));
    zr_chat_value sign = zr_value_of_integer(node->operation == ZR_OP_SUBTRACT ? -1 : 1);
    return zr_operate(r, ZR_OP_MULTIPLY, &value, &sign, out);
}

static zero_status evaluate_arithmetic(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    ZERO_TRY(zr_evaluate(r, node->left, out));
    for (int i = 0; i < node->count; i++) {
        zr_chat_value left = *out, right;
        ZERO_TRY(zr_evaluate(r, node->items[i]->left, &right));
        r->at = node->items[i];
        ZERO_TRY(zr_operate(r, node->items[i]->operation, &left, &right, out));
    }
    return ZERO_OK;
}

static zero_status evaluate_concat(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value part, text;
    *out = zr_value_of_text("", 0);
    for (int i = 0; i < node->count; i++) {
        ZERO_TRY(zr_evaluate(r, node->items[i], &part));
        r->at = node;
        ZERO_TRY(zr_value_to_text(r, &part, &text));
        text.safe = out->safe = false;
        zr_chat_value left = *out;
        ZERO_TRY(zr_operate(r, ZR_OP_ADD, &left, &text, out));
    }
    return ZERO_OK;
}

static zero_status compare(zr_rendering *r, zr_operator operation, const zr_chat_value *a,
                           const zr_chat_value *b, bool *holds)
{
    static const char *const signs[] = {[ZR_OP_LESS] = "<",
                                        [ZR_OP_LESS_EQUAL] = "<=",
                                        [ZR_OP_GREATER] = ">",
                                        [ZR_OP_GREATER_EQUAL] = ">="};
    int sign;
    if (operation == ZR_OP_EQUAL || operation == ZR_OP_UNEQUAL) {
        ZERO_TRY(zr_value_equal(r, a, b, holds));
        *holds ^= operation == ZR_OP_UNEQUAL;
        return ZERO_OK;
    }
    if (operation == ZR_OP_IN || operation == ZR_OP_NOT_IN) {
        ZERO_TRY(zr_value_contains(r, b, a, holds));
        *holds ^= operation == ZR_OP_NOT_IN;
        return ZERO_OK;
    }
    ZERO_TRY(zr_value_compare(r, a, b, signs[operation], &sign));
    *holds = sign != 2 && (operation == ZR_OP_LESS         ? sign < 0
                           : operation == ZR_OP_LESS_EQUAL ? sign <= 0
                           : operation == ZR_OP_GREATER    ? sign > 0
                                                           : sign >= 0);
    return ZERO_OK;
}

static zero_status evaluate_compare(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value left, right;
    bool holds = true;
    ZERO_TRY(zr_evaluate(r, node->left, &left));
    for (int i = 0; holds && i < node->count; i++, left = right) {
        ZERO_TRY(zr_evaluate(r, node->items[i]->left, &right));
        r->at = node->items[i];
        ZERO_TRY(compare(r, node->items[i]->operation, &left, &right, &holds));
    }
    *out = zr_value_of_boolean(holds);
    return ZERO_OK;
}

// The first value that decides, as in Python.
static zero_status evaluate_logic(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    for (int i = 0; i < node->count; i++) {
        ZERO_TRY(zr_evaluate(r, node->items[i], out));
        if (zr_value_is_true(out) == (node->kind == ZR_NODE_OR))
            return ZERO_OK;
    }
    return ZERO_OK;
}

static zero_status evaluate_condition(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    zr_chat_value condition;
    ZERO_TRY(zr_evaluate(r, node->right, &condition));
    if (zr_value_is_true(&condition))
        return zr_evaluate(r, node->left, out);
    if (node->other)
        return zr_evaluate(r, node->other, out);
    *out = zr_value_undefined("the value of an if without else", 31);
    return ZERO_OK;
}

zero_status zr_evaluate(zr_rendering *r, const zr_node *node, zr_chat_value *out)
{
    static zero_status (*const evaluate[])(zr_rendering * r, const zr_node *node,
                                           zr_chat_value *out) = {
        [ZR_NODE_CONSTANT] = evaluate_constant,
        [ZR_NODE_NAME] = evaluate_name,
        [ZR_NODE_LIST] = evaluate_list,
        [ZR_NODE_TUPLE] = evaluate_list,
        [ZR_NODE_DICT] = evaluate_dict,
        [ZR_NODE_ATTRIBUTE] = evaluate_attribute,
        [ZR_NODE_ITEM] = evaluate_item,
        [ZR_NODE_CALL] = evaluate_call,
        [ZR_NODE_FILTER] = evaluate_filter,
        [ZR_NODE_TEST] = evaluate_test,
        [ZR_NODE_NOT] = evaluate_not,
        [ZR_NODE_SIGN] = evaluate_sign,
        [ZR_NODE_ARITHMETIC] = evaluate_arithmetic,
        [ZR_NODE_CONCAT] = evaluate_concat,
        [ZR_NODE_COMPARE] = evaluate_compare,
        [ZR_NODE_AND] = evaluate_logic,
        [ZR_NODE_OR] = evaluate_logic,
        [ZR_NODE_CONDITION] = evaluate_condition};
    r->at = node;
    ZERO_TRY(zr_rendering_enter(r));
    ZERO_TRY(evaluate[node->kind](r, node, out));
    r->levels--;
    return ZERO_OK;
}
