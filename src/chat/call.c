// Calls: arguments, macros, and what is built in.
#include "chat/rendering.h"

#include <string.h>

enum { MOST_ARGUMENTS = 256 };

static zero_status expand_positions(zr_rendering *r, const zr_chat_value *v, zr_call_values *out)
{
    zr_chat_value *items;
    size_t count;
    ZERO_TRY(zr_value_iterate(r, v, &items, &count));
    if (count > MOST_ARGUMENTS)
        return zr_rendering_fail(r, "more than %d arguments", MOST_ARGUMENTS);
    zr_chat_value *at = zr_value_memory_take(&r->memory, ((size_t)out->count + count) * sizeof *at);
    if (!at)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < out->count; i++)
        at[i] = out->at[i];
    for (size_t i = 0; i < count; i++)
        at[out->count++] = items[i];
    out->at = at;
    return ZERO_OK;
}

static zero_status expand_names(zr_rendering *r, const zr_chat_value *v, zr_call_values *out)
{
    zr_value_dict *dict = v->kind == ZR_KIND_DICT ? zr_value_members(&r->memory, v) : NULL;
    if (!dict)
        return v->kind == ZR_KIND_DICT
                   ? zr_rendering_no_memory(r)
                   : zr_rendering_fail(r, "** needs a dictionary, not a %s", zr_value_type(v));
    size_t count = (size_t)out->named_count + dict->count;
    if (count > MOST_ARGUMENTS)
        return zr_rendering_fail(r, "more than %d arguments", MOST_ARGUMENTS);
    zr_keyword *named = zr_value_memory_take(&r->memory, count * sizeof *named);
    if (!named)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < out->named_count; i++)
        named[i] = out->named[i];
    for (size_t i = 0; i < dict->count; i++) {
        if (dict->keys[i].kind != ZR_KIND_TEXT)
            return zr_rendering_fail(r, "** needs names, not a %s", zr_value_type(&dict->keys[i]));
        named[out->named_count++] =
            (zr_keyword){dict->keys[i].text.data, dict->keys[i].text.length, dict->values[i]};
    }
    out->named = named;
    return ZERO_OK;
}

zero_status zr_evaluate_arguments(zr_rendering *r, const zr_node_arguments *arguments,
                                  zr_call_values *out)
{
    *out = (zr_call_values){0};
    if (!arguments->count)
        return ZERO_OK;
    size_t count = (size_t)arguments->count;
    out->at = zr_value_memory_take(&r->memory, count * (sizeof *out->at + sizeof *out->named));
    if (!out->at)
        return zr_rendering_no_memory(r);
    out->named = (zr_keyword *)(out->at + count);
    for (int i = 0; i < arguments->count; i++) {
        const zr_node_argument *argument = &arguments->at[i];
        zr_chat_value value;
        ZERO_TRY(zr_evaluate(r, argument->value, &value));
        if (argument->stars)
            ZERO_TRY(argument->stars == 1 ? expand_positions(r, &value, out)
                                          : expand_names(r, &value, out));
        else if (argument->name)
            out->named[out->named_count++] =
                (zr_keyword){argument->name, argument->name_length, value};
        else
            out->at[out->count++] = value;
    }
    return ZERO_OK;
}

static bool is_named(const zr_keyword *keyword, const char *name, size_t length)
{
    return keyword->length == length && !memcmp(keyword->name, name, length);
}

// Puts the arguments in the order of the row's parameters.
static zero_status bind_parameters(zr_rendering *r, const zr_builtin *builtin,
                                   const zr_call_values *values, zr_chat_value *at, int *count)
{
    bool used[MOST_ARGUMENTS] = {false};
    *count = 0;
    for (const char *name = builtin->parameters; *name; ++*count) {
        size_t length = strcspn(name, " ");
        at[*count] =
            *count < values->count ? values->at[*count] : (zr_chat_value){.kind = ZR_KIND_MISSING};
        for (int i = 0; i < values->named_count && i < MOST_ARGUMENTS; i++)
            if (*count >= values->count && is_named(&values->named[i], name, length)) {
                at[*count] = values->named[i].value;
                used[i] = true;
            }
        if (at[*count].kind == ZR_KIND_MISSING && *count < builtin->least)
            return zr_rendering_fail(r, "%s: the argument \"%.*s\" is missing", builtin->name,
                                     (int)length, name);
        name += length + (name[length] == ' ');
    }
    if (values->count > *count)
        return zr_rendering_fail(r, "%s: %d arguments, at most %d", builtin->name, values->count,
                                 *count);
    for (int i = 0; i < values->named_count; i++)
        if (i >= MOST_ARGUMENTS || !used[i])
            return zr_rendering_fail(r,
                                     "%s: an argument \"%.*s\", which it does not have, or has "
                                     "twice",
                                     builtin->name, (int)values->named[i].length,
                                     values->named[i].name);
    return ZERO_OK;
}

zero_status zr_builtin_apply(zr_rendering *r, const zr_builtin *builtin, const zr_chat_value *self,
                             const zr_call_values *values, zr_chat_value *out)
{
    zr_chat_value at[ZR_BUILTIN_PARAMETERS];
    zr_call_values bound = {.at = at};
    if (!builtin->parameters)
        return builtin->call(r, self, values, out);
    ZERO_TRY(bind_parameters(r, builtin, values, at, &bound.count));
    return builtin->call(r, self, &bound, out);
}

static zero_status bind_rest(zr_rendering *r, const zr_macro_value *macro,
                             const zr_call_values *values, const bool *used)
{
    const zr_node *node = macro->node;
    if (node->names_varargs && !macro->is_caller) {
        int extra = ZR_MAX(values->count - node->count, 0);
        zr_chat_value rest = zr_value_new_list(&r->memory, ZR_KIND_TUPLE, (size_t)extra);
        if (rest.kind == ZR_KIND_MISSING)
            return zr_rendering_no_memory(r);
        for (int i = 0; i < extra; i++)
            zr_value_push(&rest, values->at[node->count + i]);
        ZERO_TRY(zr_scope_set(r, zr_rendering_name(r, "varargs"), &rest));
    } else if (values->count > node->count) {
        return zr_rendering_fail(r, "a macro of %d parameters is called with %d arguments",
                                 node->count, values->count);
    }
    zr_chat_value rest = zr_value_new_dict(&r->memory, ZR_KIND_DICT);
    if (rest.kind == ZR_KIND_MISSING)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < values->named_count; i++) {
        const zr_keyword *named = &values->named[i];
        zr_chat_value key = zr_value_of_text(named->name, named->length);
        if (used[i])
            continue;
        if (!node->names_kwargs || macro->is_caller)
            return zr_rendering_fail(r, "a macro has no parameter \"%.*s\", or has it twice",
                                     (int)named->length, named->name);
        if (!zr_value_put(&r->memory, rest.dict, &key, &named->value))
            return zr_rendering_no_memory(r);
    }
    int id = zr_rendering_name(r, "kwargs");
    return node->names_kwargs && id >= 0 ? zr_scope_set(r, id, &rest) : ZERO_OK;
}

// Sets the parameters in the scope of the call. A default sees those before it.
static zero_status bind_macro(zr_rendering *r, const zr_macro_value *macro,
                              const zr_call_values *values)
{
    bool used[MOST_ARGUMENTS] = {false};
    if (values->named_count > MOST_ARGUMENTS)
        return zr_rendering_fail(r, "more than %d arguments", MOST_ARGUMENTS);
    for (int i = 0; i < macro->node->count; i++) {
        const zr_node *parameter = macro->node->items[i];
        const zr_template_name *name = &r->of->names[parameter->id];
        zr_chat_value value = zr_value_undefined(name->text, name->length);
        bool given = i < values->count;
        if (given)
            value = values->at[i];
        for (int k = 0; !given && k < values->named_count; k++)
            if (is_named(&values->named[k], name->text, name->length)) {
                value = values->named[k].value;
                given = used[k] = true;
            }
        if (!given && parameter->left)
            ZERO_TRY(zr_evaluate(r, parameter->left, &value));
        ZERO_TRY(zr_scope_set(r, parameter->id, &value));
    }
    for (int k = 0; k < values->named_count; k++)
        if (!used[k] && is_named(&values->named[k], "caller", 6) && macro->node->names_caller) {
            used[k] = true;
            ZERO_TRY(zr_scope_set(r, zr_rendering_name(r, "caller"), &values->named[k].value));
        }
    return bind_rest(r, macro, values, used);
}

zero_status zr_call_macro(zr_rendering *r, const zr_macro_value *macro,
                          const zr_call_values *values, zr_chat_value *out)
{
    zr_scope *before = NULL;
    if (r->calls == ZR_TEMPLATE_DEPTH)
        return zr_rendering_fail(r, "more than %d macros within one another", ZR_TEMPLATE_DEPTH);
    r->calls++;
    ZERO_TRY(zr_scope_enter(r, macro->scope, &before));
    ZERO_TRY(bind_macro(r, macro, values));
    ZERO_TRY(zr_execute_to_text(r, macro->body, out));
    r->scope = before;
    r->calls--;
    return ZERO_OK;
}

zero_status zr_call_value(zr_rendering *r, const zr_chat_value *callee,
                          const zr_call_values *values, zr_chat_value *out)
{
    switch (callee->kind) {
    case ZR_KIND_MACRO: return zr_call_macro(r, callee->macro, values, out);
    case ZR_KIND_FUNCTION: return zr_builtin_apply(r, callee->function, NULL, values, out);
    case ZR_KIND_METHOD:
        return zr_builtin_apply(r, callee->method->builtin, &callee->method->self, values, out);
    case ZR_KIND_UNDEFINED:
        return zr_rendering_fail(r, "\"%.*s\" is undefined, or not built, and called",
                                 (int)callee->text.length, callee->text.data);
    default: return zr_rendering_fail(r, "a %s is called", zr_value_type(callee));
    }
}
