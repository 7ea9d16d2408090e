// The state of one rendering, and what its files share (template_render.c, execute.c, evaluate.c,
// subscript.c, arithmetic.c, call.c, and the builtins).
#ifndef ZR_CHAT_RENDERING_H
#define ZR_CHAT_RENDERING_H

#include "chat/builtins.h"
#include "chat/template_nodes.h"

enum { ZR_RENDERING_LEVELS = 800 }; // of recursion in C, for trees and values

// Variables that were set in one block. A name is looked up from the innermost scope outwards, then
// among the variables of the rendering.
typedef struct zr_scope {
    struct zr_scope *parent;
    int *ids;              // (count) of names
    zr_chat_value *values; // (count)
    int count, capacity;
    bool kept; // a macro has been made in it, so it must stay as it is
} zr_scope;

typedef struct zr_macro_value {
    const zr_node *node;
    zr_scope *scope; // in which it was made
    const zr_node *body;
    bool is_caller; // of {% call %}
} zr_macro_value;

typedef struct zr_method_value {
    zr_chat_value self;
    const zr_builtin *builtin;
} zr_method_value;

typedef enum zr_flow { ZR_FLOW_ON, ZR_FLOW_BREAK, ZR_FLOW_CONTINUE } zr_flow;

struct zr_rendering {
    const zr_template *of;
    const zr_template_options *options;
    zr_value_memory memory;
    zero_error *error;
    const zr_node *at; // what is evaluated, for messages
    int64_t steps;     // that are left
    size_t most_output;
    int levels, calls;
    zr_chat_value *context; // (name_count) variables by name; MISSING if there is none
    zr_scope *scope;
    zr_buffer *out; // where output goes: the rendered text, or that of a block
    zr_flow flow;
    zr_rendered *rendered;
};

zero_status zr_rendering_fail(zr_rendering *r, const char *format, ...) ZERO_PRINTF(2, 3);
zero_status zr_rendering_refuse(zr_rendering *r, const char *text, size_t length);
zero_status zr_rendering_no_memory(zr_rendering *r);
zero_status zr_rendering_steps(zr_rendering *r, size_t count); // counts work; fails above the bound
zero_status zr_rendering_enter(zr_rendering *r);               // one level; r->levels-- leaves it
zero_status zr_rendering_write(zr_rendering *r, const char *text, size_t length);

// Evaluate an expression, run a statement.
zero_status zr_evaluate(zr_rendering *r, const zr_node *node, zr_chat_value *out);
zero_status zr_execute(zr_rendering *r, const zr_node *node);
// Runs a block and takes what it writes as a text.
zero_status zr_execute_to_text(zr_rendering *r, const zr_node *block, zr_chat_value *out);
// Sets names of a target to a value, or to the items of it.
zero_status zr_assign(zr_rendering *r, const zr_node *target, const zr_chat_value *value);
zero_status zr_scope_enter(zr_rendering *r, zr_scope *parent, zr_scope **before);
zero_status zr_scope_set(zr_rendering *r, int id, const zr_chat_value *value);
zr_chat_value zr_scope_find(const zr_rendering *r, int id);
int zr_rendering_name(const zr_rendering *r, const char *name); // id of a name; -1 if there is none

// `given`: the value that the innermost filter is applied to, where the chain names none.
zero_status zr_evaluate_filter(zr_rendering *r, const zr_node *node, const zr_chat_value *given,
                               zr_chat_value *out);
zero_status zr_evaluate_arguments(zr_rendering *r, const zr_node_arguments *arguments,
                                  zr_call_values *out);
zero_status zr_call_value(zr_rendering *r, const zr_chat_value *callee,
                          const zr_call_values *values, zr_chat_value *out);
zero_status zr_call_macro(zr_rendering *r, const zr_macro_value *macro,
                          const zr_call_values *values, zr_chat_value *out);
zero_status zr_operate(zr_rendering *r, zr_operator operation, const zr_chat_value *a,
                       const zr_chat_value *b, zr_chat_value *out);
zero_status zr_get_attribute(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *name,
                             zr_chat_value *out);
zero_status zr_get_item(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *key,
                        zr_chat_value *out);
// from, to and step: NULL or None where left out.
zero_status zr_get_slice(zr_rendering *r, const zr_chat_value *of, const zr_chat_value *part,
                         zr_chat_value *out);

// loop.NAME; the value is MISSING if a loop has no such attribute.
zero_status zr_loop_attribute(zr_rendering *r, struct zr_loop *loop, const zr_chat_value *name,
                              zr_chat_value *out);
zero_status zr_execute_for(zr_rendering *r, const zr_node *node);

// What values have in common.
zero_status zr_value_iterate(zr_rendering *r, const zr_chat_value *v, zr_chat_value **items,
                             size_t *count);
zero_status zr_value_length(zr_rendering *r, const zr_chat_value *v, int64_t *length); // len(v)
zero_status zr_value_equal(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                           bool *equal);
// *sign: below 0, 0 or above 0 as a is less than, equal to or greater than b; fails where Python
// does. `sign` of "<" is for the message.
zero_status zr_value_compare(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                             const char *sign_name, int *sign);
zero_status zr_value_contains(zr_rendering *r, const zr_chat_value *whole,
                              const zr_chat_value *part, bool *contains);
zero_status zr_value_to_text(zr_rendering *r, const zr_chat_value *v, zr_chat_value *out); // str(v)
zero_status zr_value_append_text(zr_rendering *r, const zr_chat_value *v, bool quoted,
                                 zr_buffer *out);
zero_status zr_text_of_buffer(zr_rendering *r, zr_buffer *buffer, zr_chat_value *out); // frees it
// Appends a value as JSON, as transformers' tojson does.
typedef struct zr_tojson_form {
    bool ascii, sorted;
    const char *indent; // NULL: all in one line
    size_t indent_length;
    zr_chat_value item_separator, key_separator;
} zr_tojson_form;
zero_status zr_value_append_json(zr_rendering *r, const zr_chat_value *v,
                                 const zr_tojson_form *form, int level, zr_buffer *out);
// Sorts by an order that may fail; it is stable.
typedef zero_status zr_value_order(zr_rendering *r, const zr_chat_value *a, const zr_chat_value *b,
                                   int *sign);
zero_status zr_value_sort(zr_rendering *r, zr_chat_value *keys, zr_chat_value *values, size_t count,
                          bool reverse, zr_value_order *order);

#endif
