// Statements: {% if %}, {% for %}, {% set %}, {% macro %} and others, and the text between them.
#include "chat/template_parser.h"

#include <string.h>

static zero_status end_tag(zr_parser *p)
{
    return zr_parse_expect_kind(p, ZR_TOKEN_BLOCK_END, "%}");
}

// Takes the rest of a tag and the block after it, up to a tag that begins with one of `ends`, whose
// name is the next token then.
static zero_status parse_body(zr_parser *p, const char *const *ends, const zr_node **out)
{
    zr_parse_skip(p, ":");
    ZERO_TRY(end_tag(p));
    ZERO_TRY(zr_parse_enter(p));
    ZERO_TRY(zr_parse_block(p, ends, out));
    p->depth--;
    return ZERO_OK;
}

// The same for a block that ends in one way; takes the name of its end, too.
static zero_status parse_whole_body(zr_parser *p, const char *end, const zr_node **out)
{
    const char *const ends[] = {end, NULL};
    ZERO_TRY(parse_body(p, ends, out));
    p->token++;
    return ZERO_OK;
}

static zero_status parse_if_branches(zr_parser *p, zr_node_list *list, const zr_node **otherwise)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    const zr_node *part;
    do {
        ZERO_TRY(zr_parse_tuple(p, (zr_tuple_form){.no_condition = true}, &part));
        ZERO_TRY(zr_parse_push(p, list, part));
        ZERO_TRY(parse_body(p, ends, &part));
        ZERO_TRY(zr_parse_push(p, list, part));
    } while (zr_parse_skip_word(p, "elif"));
    if (zr_parse_skip_word(p, "else"))
        return parse_whole_body(p, "endif", otherwise);
    p->token++;
    return ZERO_OK;
}

static zero_status parse_if(zr_parser *p, zr_node *node)
{
    zr_node_list list = {0};
    node->kind = ZR_NODE_IF;
    zero_status status = parse_if_branches(p, &list, &node->other);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    return status;
}

static zero_status parse_for_blocks(zr_parser *p, zr_node_list *list)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    const zr_node *block;
    p->loops++;
    ZERO_TRY(parse_body(p, ends, &block));
    p->loops--;
    ZERO_TRY(zr_parse_push(p, list, block));
    if (zr_parse_skip_word(p, "endfor"))
        return ZERO_OK;
    p->token++;
    ZERO_TRY(parse_whole_body(p, "endfor", &block));
    return zr_parse_push(p, list, block);
}

static zero_status parse_for(zr_parser *p, zr_node *node)
{
    zr_node_list list = {0};
    char found[64];
    node->kind = ZR_NODE_FOR;
    ZERO_TRY(zr_parse_target(p, false, "in", &node->left));
    if (!zr_parse_skip_word(p, "in"))
        return ZR_PARSE_FAIL(p, "\"in\" is due, and here is %s", zr_parse_describe(p, found));
    zr_tuple_form form = {.no_condition = true, .end = "recursive"};
    ZERO_TRY(zr_parse_tuple(p, form, &node->right));
    if (zr_parse_skip_word(p, "if"))
        ZERO_TRY(zr_parse_expression(p, &node->other));
    if (zr_parse_is_word(p, "recursive"))
        return zr_template_fail(&p->of->source, p->token->offset, ZERO_ERR_UNSUPPORTED, p->error,
                                "recursive loops are not built");
    zero_status status = parse_for_blocks(p, &list);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    return status;
}

static zero_status parse_set(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_SET;
    ZERO_TRY(zr_parse_target(p, true, NULL, &node->left));
    if (zr_parse_skip(p, "="))
        return zr_parse_tuple(p, (zr_tuple_form){0}, &node->right);
    node->kind = ZR_NODE_SET_BLOCK;
    ZERO_TRY(zr_parse_filters(p, false, &node->right));
    return parse_whole_body(p, "endset", &node->other);
}

static zero_status parse_parameters(zr_parser *p, zr_node_list *list)
{
    bool defaults = false;
    ZERO_TRY(zr_parse_expect(p, "("));
    while (!zr_parse_is(p, ")")) {
        zr_node *parameter;
        if (list->count)
            ZERO_TRY(zr_parse_expect(p, ","));
        ZR_PARSE_NEW(p, parameter, ZR_NODE_NAME, p->token->offset);
        ZERO_TRY(zr_parse_name(p, &parameter->id));
        if (zr_parse_skip(p, "=")) {
            defaults = true;
            ZERO_TRY(zr_parse_expression(p, &parameter->left));
        } else if (defaults) {
            return ZR_PARSE_FAIL(p, "a parameter without a default after one that has one");
        }
        ZERO_TRY(zr_parse_push(p, list, parameter));
    }
    return zr_parse_expect(p, ")");
}

static zero_status parse_signature(zr_parser *p, zr_node *node)
{
    zr_node_list list = {0};
    zero_status status = parse_parameters(p, &list);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    return status;
}

// Takes the block of a macro or of what counts as one: {% break %} in it leaves no loop outside.
static zero_status parse_macro_body(zr_parser *p, const char *end, zr_node *macro,
                                    const zr_node **out)
{
    zr_node *outer = p->macro;
    int loops = p->loops;
    p->macro = macro;
    p->loops = 0;
    ZERO_TRY(parse_whole_body(p, end, out));
    p->macro = outer;
    p->loops = loops;
    if (outer) { // what an inner macro takes from outside, the outer one names, too
        outer->names_varargs |= macro->names_varargs;
        outer->names_kwargs |= macro->names_kwargs;
        outer->names_caller |= macro->names_caller;
    }
    return ZERO_OK;
}

static zero_status parse_macro(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_MACRO;
    ZERO_TRY(zr_parse_name(p, &node->id));
    ZERO_TRY(parse_signature(p, node));
    return parse_macro_body(p, "endmacro", node, &node->other);
}

static zero_status parse_call_block(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_CALL_BLOCK;
    if (zr_parse_is(p, "("))
        ZERO_TRY(parse_signature(p, node));
    ZERO_TRY(zr_parse_expression(p, &node->left));
    if (node->left->kind != ZR_NODE_CALL)
        return ZR_PARSE_FAIL(p, "{%% call %%} needs a call of a macro");
    return parse_macro_body(p, "endcall", node, &node->other);
}

static zero_status parse_generation(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_GENERATION;
    p->of->marks_answers = true;
    return parse_macro_body(p, "endgeneration", node, &node->left);
}

static zero_status parse_filter_block(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_FILTER_BLOCK;
    ZERO_TRY(zr_parse_filters(p, true, &node->right));
    return parse_whole_body(p, "endfilter", &node->left);
}

static zero_status parse_with_pairs(zr_parser *p, zr_node_list *list)
{
    const zr_node *part;
    while (p->token->kind != ZR_TOKEN_BLOCK_END) {
        if (list->count)
            ZERO_TRY(zr_parse_expect(p, ","));
        ZERO_TRY(zr_parse_primary(p, false, &part));
        if (part->kind != ZR_NODE_NAME)
            return ZR_PARSE_FAIL(p, "{%% with %%} needs names");
        ZERO_TRY(zr_parse_push(p, list, part));
        ZERO_TRY(zr_parse_expect(p, "="));
        ZERO_TRY(zr_parse_expression(p, &part));
        ZERO_TRY(zr_parse_push(p, list, part));
    }
    return ZERO_OK;
}

static zero_status parse_with(zr_parser *p, zr_node *node)
{
    zr_node_list list = {0};
    node->kind = ZR_NODE_WITH;
    zero_status status = parse_with_pairs(p, &list);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    return status == ZERO_OK ? parse_whole_body(p, "endwith", &node->other) : status;
}

static zero_status parse_break(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_BREAK;
    return p->loops ? ZERO_OK : ZR_PARSE_FAIL(p, "{%% break %%} outside of a loop");
}

static zero_status parse_continue(zr_parser *p, zr_node *node)
{
    node->kind = ZR_NODE_CONTINUE;
    return p->loops ? ZERO_OK : ZR_PARSE_FAIL(p, "{%% continue %%} outside of a loop");
}

zero_status zr_parse_statement(zr_parser *p, const zr_node **out)
{
    static const struct {
        const char *name;
        zero_status (*parse)(zr_parser *p, zr_node *node);
    } tags[] = {{"if", parse_if},
                {"for", parse_for},
                {"set", parse_set},
                {"macro", parse_macro},
                {"call", parse_call_block},
                {"generation", parse_generation},
                {"filter", parse_filter_block},
                {"with", parse_with},
                {"break", parse_break},
                {"continue", parse_continue}};
    static const char *const unbuilt[] = {"include", "import", "from",       "extends",
                                          "block",   "print",  "autoescape", "do"};
    size_t offset = p->token->offset;
    char found[64];
    zr_node *node;
    ZR_PARSE_NEW(p, node, ZR_NODE_BLOCK, offset);
    *out = node;
    for (int i = 0; i < ZR_COUNT(tags); i++)
        if (zr_parse_skip_word(p, tags[i].name)) {
            ZERO_TRY(tags[i].parse(p, node));
            return end_tag(p);
        }
    for (int i = 0; i < ZR_COUNT(unbuilt); i++)
        if (zr_parse_is_word(p, unbuilt[i]))
            return zr_template_fail(&p->of->source, offset, ZERO_ERR_UNSUPPORTED, p->error,
                                    "{%% %s %%} is not built", unbuilt[i]);
    return ZR_PARSE_FAIL(p, "a tag is due, and here is %s", zr_parse_describe(p, found));
}

static bool is_one_of(const zr_parser *p, const char *const *words)
{
    for (; *words; words++)
        if (zr_parse_is_word(p, *words))
            return true;
    return false;
}

static zero_status parse_output(zr_parser *p, const zr_node **out)
{
    zr_node *node;
    ZR_PARSE_NEW(p, node, ZR_NODE_OUTPUT, p->token->offset);
    p->token++;
    ZERO_TRY(zr_parse_tuple(p, (zr_tuple_form){0}, &node->left));
    *out = node;
    return zr_parse_expect_kind(p, ZR_TOKEN_VARIABLE_END, "}}");
}

static zero_status parse_data(zr_parser *p, const zr_node **out)
{
    zr_node *node;
    ZR_PARSE_NEW(p, node, ZR_NODE_DATA, p->token->offset);
    node->constant = zr_value_of_text(p->token->text, p->token->length);
    p->token++;
    *out = node;
    return ZERO_OK;
}

static zero_status parse_parts(zr_parser *p, const char *const *ends, zr_node_list *list)
{
    const zr_node *part;
    while (p->token->kind != ZR_TOKEN_END) {
        bool is_block = p->token->kind == ZR_TOKEN_BLOCK_BEGIN;
        p->token += is_block;
        if (is_block && is_one_of(p, ends))
            return ZERO_OK;
        ZERO_TRY(is_block                          ? zr_parse_statement(p, &part)
                 : p->token->kind == ZR_TOKEN_DATA ? parse_data(p, &part)
                                                   : parse_output(p, &part));
        ZERO_TRY(zr_parse_push(p, list, part));
    }
    return *ends ? ZR_PARSE_FAIL(p, "the template ends within a block: {%% %s %%} is missing",
                                 ends[0])
                 : ZERO_OK;
}

zero_status zr_parse_block(zr_parser *p, const char *const *ends, const zr_node **out)
{
    zr_node_list list = {0};
    zr_node *node;
    ZR_PARSE_NEW(p, node, ZR_NODE_BLOCK, p->token->offset);
    zero_status status = parse_parts(p, ends, &list);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    *out = node;
    return status;
}
