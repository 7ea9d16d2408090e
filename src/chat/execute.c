// Runs statements, all but loops (execute_for.c).
#include "chat/rendering.h"

#include <string.h>

zero_status zr_scope_enter(zr_rendering *r, zr_scope *parent, zr_scope **before)
{
    zr_scope *scope = zr_value_memory_take(&r->memory, sizeof *scope);
    if (!scope)
        return zr_rendering_no_memory(r);
    scope->parent = parent;
    *before = r->scope;
    r->scope = scope;
    return ZERO_OK;
}

static zr_chat_value *find_in(const zr_scope *scope, int id)
{
    for (int i = 0; i < scope->count; i++)
        if (scope->ids[i] == id)
            return &scope->values[i];
    return NULL;
}

zr_chat_value zr_scope_find(const zr_rendering *r, int id)
{
    for (const zr_scope *scope = r->scope; scope; scope = scope->parent) {
        const zr_chat_value *value = find_in(scope, id);
        if (value)
            return *value;
    }
    return r->context[id];
}

zero_status zr_scope_set(zr_rendering *r, int id, const zr_chat_value *value)
{
    zr_scope *scope = r->scope;
    zr_chat_value *there = find_in(scope, id);
    if (there) {
        *there = *value;
        return ZERO_OK;
    }
    if (scope->count == scope->capacity) {
        int capacity = scope->capacity ? 2 * scope->capacity : 4;
        size_t count = (size_t)capacity;
        zr_chat_value *values =
            zr_value_memory_take(&r->memory, count * (sizeof *values + sizeof *scope->ids));
        if (!values)
            return zr_rendering_no_memory(r);
        int *ids = (int *)(values + capacity);
        for (int i = 0; i < scope->count; i++) {
            values[i] = scope->values[i];
            ids[i] = scope->ids[i];
        }
        scope->values = values;
        scope->ids = ids;
        scope->capacity = capacity;
    }
    scope->ids[scope->count] = id;
    scope->values[scope->count++] = *value;
    return ZERO_OK;
}

static zero_status assign_items(zr_rendering *r, const zr_node *target, const zr_chat_value *value)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, value, &items, &count));
    if (count != (size_t)target->count)
        return zr_rendering_fail(r, "%zu values for %d names", count, target->count);
    for (int i = 0; i < target->count; i++)
        ZERO_TRY(zr_assign(r, target->items[i], &items[i]));
    return ZERO_OK;
}

// Sets a member of a namespace, the only object that a template may change.
static zero_status assign_member(zr_rendering *r, const zr_node *target, const zr_chat_value *value)
{
    zr_chat_value of = zr_scope_find(r, target->id);
    r->at = target;
    if (of.kind != ZR_KIND_NAMESPACE)
        return zr_rendering_fail(r, "a member is set of what is no namespace");
    if (target->constant.text.data[0] == '_')
        return zr_rendering_fail(r, "the member \"%.*s\" of a namespace begins with _",
                                 (int)target->constant.text.length, target->constant.text.data);
    ZERO_TRY(zr_rendering_steps(r, of.dict->count / 16));
    return zr_value_put(&r->memory, of.dict, &target->constant, value) ? ZERO_OK
                                                                       : zr_rendering_no_memory(r);
}

zero_status zr_assign(zr_rendering *r, const zr_node *target, const zr_chat_value *value)
{
    if (target->kind == ZR_NODE_NAME)
        return zr_scope_set(r, target->id, value);
    if (target->kind == ZR_NODE_MEMBER)
        return assign_member(r, target, value);
    ZERO_TRY(zr_rendering_enter(r));
    r->at = target;
    ZERO_TRY(assign_items(r, target, value));
    r->levels--;
    return ZERO_OK;
}

zero_status zr_text_of_buffer(zr_rendering *r, zr_buffer *buffer, zr_chat_value *out)
{
    zero_status status = ZERO_OK;
    char *text = buffer->failed ? NULL : zr_value_memory_text(&r->memory, NULL, 0, buffer->length);
    if (buffer->failed)
        status = zr_fail(r->error, ZERO_ERR_MEMORY, "%s: no memory for a text of the chat template",
                         r->of->name);
    else if (!text)
        status = zr_rendering_no_memory(r);
    else if (buffer->length)
        memcpy(text, buffer->data, buffer->length);
    if (status == ZERO_OK)
        *out = zr_value_of_text(text, buffer->length);
    zr_buffer_free(buffer);
    return status;
}

zero_status zr_execute_to_text(zr_rendering *r, const zr_node *block, zr_chat_value *out)
{
    zr_buffer text = {0}, *outer = r->out;
    r->out = &text;
    zero_status status = zr_execute(r, block);
    r->out = outer;
    if (status == ZERO_OK)
        return zr_text_of_buffer(r, &text, out);
    zr_buffer_free(&text);
    return status;
}

static zero_status execute_block(zr_rendering *r, const zr_node *node)
{
    for (int i = 0; i < node->count && r->flow == ZR_FLOW_ON; i++)
        ZERO_TRY(zr_execute(r, node->items[i]));
    return ZERO_OK;
}

static zero_status execute_data(zr_rendering *r, const zr_node *node)
{
    return zr_rendering_write(r, node->constant.text.data, node->constant.text.length);
}

static zero_status execute_output(zr_rendering *r, const zr_node *node)
{
    zr_chat_value value, text;
    ZERO_TRY(zr_evaluate(r, node->left, &value));
    r->at = node;
    ZERO_TRY(zr_value_to_text(r, &value, &text));
    return zr_rendering_write(r, text.text.data, text.text.length);
}

static zero_status execute_if(zr_rendering *r, const zr_node *node)
{
    for (int i = 0; i < node->count; i += 2) {
        zr_chat_value condition;
        ZERO_TRY(zr_evaluate(r, node->items[i], &condition));
        if (zr_value_is_true(&condition))
            return zr_execute(r, node->items[i + 1]);
    }
    return node->other ? zr_execute(r, node->other) : ZERO_OK;
}

static zero_status execute_set(zr_rendering *r, const zr_node *node)
{
    zr_chat_value value;
    ZERO_TRY(zr_evaluate(r, node->right, &value));
    return zr_assign(r, node->left, &value);
}

// Runs a block in a scope of its own and takes its text, through filters if there are any.
static zero_status text_of_scope(zr_rendering *r, const zr_node *block, const zr_node *filters,
                                 zr_chat_value *out)
{
    zr_scope *before = NULL;
    ZERO_TRY(zr_scope_enter(r, r->scope, &before));
    zero_status status = zr_execute_to_text(r, block, out);
    r->scope = before;
    if (status != ZERO_OK || !filters)
        return status;
    zr_chat_value given = *out;
    return zr_evaluate_filter(r, filters, &given, out);
}

static zero_status execute_set_block(zr_rendering *r, const zr_node *node)
{
    zr_chat_value value;
    ZERO_TRY(text_of_scope(r, node->other, node->right, &value));
    return zr_assign(r, node->left, &value);
}

static zero_status execute_filter_block(zr_rendering *r, const zr_node *node)
{
    zr_chat_value value, text;
    ZERO_TRY(text_of_scope(r, node->left, node->right, &value));
    ZERO_TRY(zr_value_to_text(r, &value, &text));
    return zr_rendering_write(r, text.text.data, text.text.length);
}

static zero_status make_macro(zr_rendering *r, const zr_node *node, bool is_caller,
                              zr_chat_value *out)
{
    zr_macro_value *macro = zr_value_memory_take(&r->memory, sizeof *macro);
    if (!macro)
        return zr_rendering_no_memory(r);
    *macro = (zr_macro_value){
        .node = node, .scope = r->scope, .body = node->other, .is_caller = is_caller};
    for (zr_scope *scope = r->scope; scope && !scope->kept; scope = scope->parent)
        scope->kept = true;
    *out = (zr_chat_value){.kind = ZR_KIND_MACRO, .macro = macro};
    return ZERO_OK;
}

static zero_status execute_macro(zr_rendering *r, const zr_node *node)
{
    zr_chat_value macro;
    ZERO_TRY(make_macro(r, node, false, &macro));
    return zr_scope_set(r, node->id, &macro);
}

static zero_status execute_call_block(zr_rendering *r, const zr_node *node)
{
    zr_chat_value caller, callee, result, text;
    zr_call_values values;
    ZERO_TRY(make_macro(r, node, true, &caller));
    ZERO_TRY(zr_evaluate(r, node->left->left, &callee));
    ZERO_TRY(zr_evaluate_arguments(r, &node->left->arguments, &values));
    size_t bytes = ((size_t)values.named_count + 1) * sizeof *values.named;
    zr_keyword *named = zr_value_memory_take(&r->memory, bytes);
    if (!named)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < values.named_count; i++)
        named[i] = values.named[i];
    named[values.named_count++] = (zr_keyword){.name = "caller", .length = 6, .value = caller};
    values.named = named;
    r->at = node;
    ZERO_TRY(zr_call_value(r, &callee, &values, &result));
    ZERO_TRY(zr_value_to_text(r, &result, &text));
    return zr_rendering_write(r, text.text.data, text.text.length);
}

static zero_status add_span(zr_rendering *r, size_t begin, size_t length)
{
    zr_rendered *rendered = r->rendered;
    zr_template_span *spans = zr_list_grow(rendered->spans, rendered->span_count,
                                           &rendered->span_capacity, sizeof *spans, r->error);
    if (!spans)
        return ZERO_ERR_MEMORY;
    rendered->spans = spans;
    spans[rendered->span_count++] = (zr_template_span){begin, begin + length};
    rendered->misplaced |= r->out != &rendered->text;
    return ZERO_OK;
}

// As in transformers, the block is a macro that is called at once, and its place is where the
// rendered text ends then.
static zero_status execute_generation(zr_rendering *r, const zr_node *node)
{
    zr_chat_value text;
    size_t begin = r->rendered->text.length;
    ZERO_TRY(text_of_scope(r, node->left, NULL, &text));
    ZERO_TRY(add_span(r, begin, text.text.length));
    return zr_rendering_write(r, text.text.data, text.text.length);
}

static zero_status execute_with(zr_rendering *r, const zr_node *node)
{
    zr_scope *before = NULL;
    zr_chat_value value;
    ZERO_TRY(zr_scope_enter(r, r->scope, &before));
    zr_scope *inner = r->scope;
    for (int i = 0; i < node->count; i += 2) {
        r->scope = before; // values do not see the names beside them
        ZERO_TRY(zr_evaluate(r, node->items[i + 1], &value));
        r->scope = inner;
        ZERO_TRY(zr_assign(r, node->items[i], &value));
    }
    ZERO_TRY(zr_execute(r, node->other));
    r->scope = before;
    return ZERO_OK;
}

static zero_status execute_break(zr_rendering *r, const zr_node *node)
{
    r->flow = node->kind == ZR_NODE_BREAK ? ZR_FLOW_BREAK : ZR_FLOW_CONTINUE;
    return ZERO_OK;
}

zero_status zr_execute(zr_rendering *r, const zr_node *node)
{
    static zero_status (*const execute[])(zr_rendering * r, const zr_node *node) = {
        [ZR_NODE_BLOCK] = execute_block,
        [ZR_NODE_DATA] = execute_data,
        [ZR_NODE_OUTPUT] = execute_output,
        [ZR_NODE_IF] = execute_if,
        [ZR_NODE_FOR] = zr_execute_for,
        [ZR_NODE_SET] = execute_set,
        [ZR_NODE_SET_BLOCK] = execute_set_block,
        [ZR_NODE_MACRO] = execute_macro,
        [ZR_NODE_CALL_BLOCK] = execute_call_block,
        [ZR_NODE_GENERATION] = execute_generation,
        [ZR_NODE_FILTER_BLOCK] = execute_filter_block,
        [ZR_NODE_WITH] = execute_with,
        [ZR_NODE_BREAK] = execute_break,
        [ZR_NODE_CONTINUE] = execute_break};
    r->at = node;
    ZERO_TRY(zr_rendering_enter(r));
    ZERO_TRY(execute[node->kind](r, node));
    r->levels--;
    return ZERO_OK;
}
