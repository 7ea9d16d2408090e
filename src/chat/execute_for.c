// {% for %}: the items, the variable `loop`, and the condition, which is asked for each item when
// its turn comes.
#include "chat/rendering.h"

#include <string.h>

typedef struct zr_loop {
    const zr_node *node;
    zr_chat_value *items; // (count) of what is iterated
    size_t count, next;
    zr_scope *outer;
    // Items that the condition lets through: the number of those that have had their turn, and that
    // of all, once it is known.
    int64_t index, length;
    zr_chat_value before, current, after;
    bool has_before, has_after; // `after` has been fetched
    int depth;
} zr_loop;

// Asks the condition in a scope that has the target's names alone.
static zero_status passes(zr_rendering *r, const zr_loop *loop, const zr_chat_value *item,
                          bool *pass)
{
    zr_chat_value condition;
    zr_scope *before = NULL;
    *pass = true;
    if (!loop->node->other)
        return ZERO_OK;
    ZERO_TRY(zr_scope_enter(r, loop->outer, &before));
    ZERO_TRY(zr_assign(r, loop->node->left, item));
    ZERO_TRY(zr_evaluate(r, loop->node->other, &condition));
    r->scope = before;
    *pass = zr_value_is_true(&condition);
    return ZERO_OK;
}

// Fetches the item after this one, if there is one, into loop->after.
static zero_status fetch(zr_rendering *r, zr_loop *loop)
{
    while (!loop->has_after && loop->next < loop->count) {
        const zr_chat_value *item = &loop->items[loop->next++];
        ZERO_TRY(zr_rendering_steps(r, 1));
        if (loop->length >= 0) // all that are left have passed
            loop->has_after = true;
        else
            ZERO_TRY(passes(r, loop, item, &loop->has_after));
        loop->after = *item;
    }
    return ZERO_OK;
}

// Counts all items. With a condition, it is asked for those that are left at once.
static zero_status count_items(zr_rendering *r, zr_loop *loop)
{
    if (loop->length >= 0)
        return ZERO_OK;
    ZERO_TRY(fetch(r, loop));
    size_t kept = loop->next;
    for (size_t i = loop->next; i < loop->count; i++) {
        bool pass;
        zr_chat_value item = loop->items[i];
        ZERO_TRY(passes(r, loop, &item, &pass));
        if (pass)
            loop->items[kept++] = item;
    }
    loop->length = loop->index + loop->has_after + (int64_t)(kept - loop->next);
    loop->count = kept;
    return ZERO_OK;
}

static zero_status get_previous(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = loop->has_before ? loop->before : zr_value_undefined("loop.previtem", 13);
    return ZERO_OK;
}

static zero_status get_next(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    ZERO_TRY(fetch(r, loop));
    *out = loop->has_after ? loop->after : zr_value_undefined("loop.nextitem", 13);
    return ZERO_OK;
}

static zero_status get_last(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    ZERO_TRY(fetch(r, loop));
    *out = zr_value_of_boolean(!loop->has_after);
    return ZERO_OK;
}

static zero_status get_index(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = zr_value_of_integer(loop->index);
    return ZERO_OK;
}

static zero_status get_index0(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = zr_value_of_integer(loop->index - 1);
    return ZERO_OK;
}

static zero_status get_first(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = zr_value_of_boolean(loop->index == 1);
    return ZERO_OK;
}

static zero_status get_length(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    ZERO_TRY(count_items(r, loop));
    *out = zr_value_of_integer(loop->length);
    return ZERO_OK;
}

static zero_status get_revindex(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    ZERO_TRY(count_items(r, loop));
    *out = zr_value_of_integer(loop->length - loop->index + 1);
    return ZERO_OK;
}

static zero_status get_revindex0(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    ZERO_TRY(count_items(r, loop));
    *out = zr_value_of_integer(loop->length - loop->index);
    return ZERO_OK;
}

static zero_status get_depth(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = zr_value_of_integer(1);
    return ZERO_OK;
}

static zero_status get_depth0(zr_rendering *r, zr_loop *loop, zr_chat_value *out)
{
    *out = zr_value_of_integer(0);
    return ZERO_OK;
}

zero_status zr_loop_attribute(zr_rendering *r, zr_loop *loop, const zr_chat_value *name,
                              zr_chat_value *out)
{
    static const struct {
        const char *name;
        zero_status (*get)(zr_rendering *r, zr_loop *loop, zr_chat_value *out);
    } attributes[] = {
        {"index", get_index},   {"index0", get_index0},     {"first", get_first},
        {"last", get_last},     {"length", get_length},     {"previtem", get_previous},
        {"nextitem", get_next}, {"revindex", get_revindex}, {"revindex0", get_revindex0},
        {"depth", get_depth},   {"depth0", get_depth0}};
    *out = (zr_chat_value){.kind = ZR_KIND_MISSING};
    for (int i = 0; i < ZR_COUNT(attributes); i++)
        if (zr_value_text_is(name, attributes[i].name))
            return attributes[i].get(r, loop, out);
    return ZERO_OK;
}

// Gives the next item its turn; *more is false if there is none.
static zero_status advance(zr_rendering *r, zr_loop *loop, bool *more)
{
    if (loop->index) {
        loop->before = loop->current;
        loop->has_before = true;
    }
    ZERO_TRY(fetch(r, loop));
    *more = loop->has_after;
    loop->current = loop->after;
    loop->has_after = false;
    loop->index += *more;
    return ZERO_OK;
}

static zero_status run_iterations(zr_rendering *r, zr_loop *loop)
{
    int name = zr_rendering_name(r, "loop");
    zr_chat_value variable = {.kind = ZR_KIND_LOOP, .loop = loop};
    bool more;
    zr_scope *before = r->scope;
    ZERO_TRY(advance(r, loop, &more));
    while (more) {
        if (r->scope == before || r->scope->kept) {
            zr_scope *unused;
            ZERO_TRY(zr_scope_enter(r, before, &unused));
        }
        r->scope->count = 0;
        if (name >= 0)
            ZERO_TRY(zr_scope_set(r, name, &variable));
        ZERO_TRY(zr_assign(r, loop->node->left, &loop->current));
        ZERO_TRY(zr_execute(r, loop->node->items[0]));
        bool leaves = r->flow == ZR_FLOW_BREAK;
        r->flow = ZR_FLOW_ON;
        if (leaves)
            break;
        ZERO_TRY(advance(r, loop, &more));
    }
    r->scope = before;
    return ZERO_OK;
}

zero_status zr_execute_for(zr_rendering *r, const zr_node *node)
{
    zr_chat_value iterated, *items;
    zr_loop *loop = zr_value_memory_take(&r->memory, sizeof *loop);
    if (!loop)
        return zr_rendering_no_memory(r);
    *loop = (zr_loop){.node = node, .outer = r->scope, .length = -1};
    ZERO_TRY(zr_evaluate(r, node->right, &iterated));
    r->at = node->right;
    ZERO_TRY(zr_value_iterate(r, &iterated, &items, &loop->count));
    loop->items = items;
    if (node->other && loop->count) { // the list is filtered in place, so it is a copy
        zr_chat_value *copy = zr_value_memory_take(&r->memory, loop->count * sizeof *copy);
        if (!copy)
            return zr_rendering_no_memory(r);
        memcpy(copy, items, loop->count * sizeof *copy);
        loop->items = copy;
    } else if (!node->other) {
        loop->length = (int64_t)loop->count;
    }
    ZERO_TRY(run_iterations(r, loop));
    bool otherwise = !loop->index && node->count > 1;
    return otherwise ? zr_execute(r, node->items[1]) : ZERO_OK;
}
