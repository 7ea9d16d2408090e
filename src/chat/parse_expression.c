// Expressions without operators: literals, names, subscripts, calls, filters and tests.
#include "chat/builtins.h"
#include "chat/template_parser.h"

#include <string.h>

static zero_status new_constant(zr_parser *p, size_t offset, zr_chat_value value,
                                const zr_node **out)
{
    zr_node *node;
    ZR_PARSE_NEW(p, node, ZR_NODE_CONSTANT, offset);
    node->constant = value;
    *out = node;
    return ZERO_OK;
}

// Takes a string, with those that follow it.
static zero_status parse_string(zr_parser *p, const zr_node **out)
{
    const zr_template_token *first = p->token++;
    const char *text = first->text;
    size_t length = first->length;
    for (; p->token->kind == ZR_TOKEN_STRING; p->token++) {
        char *joined = zr_value_memory_text(&p->of->memory, text, length, p->token->length);
        if (!joined)
            return zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for a string", p->of->name);
        memcpy(joined + length, p->token->text, p->token->length);
        text = joined;
        length += p->token->length;
    }
    return new_constant(p, first->offset, zr_value_of_text(text, length), out);
}

static zero_status parse_name(zr_parser *p, bool members, const zr_node **out)
{
    static const struct {
        const char *word;
        zr_chat_value value;
    } constants[] = {{"true", {.kind = ZR_KIND_BOOLEAN, .boolean = true}},
                     {"True", {.kind = ZR_KIND_BOOLEAN, .boolean = true}},
                     {"false", {.kind = ZR_KIND_BOOLEAN}},
                     {"False", {.kind = ZR_KIND_BOOLEAN}},
                     {"none", {.kind = ZR_KIND_NONE}},
                     {"None", {.kind = ZR_KIND_NONE}}};
    size_t offset = p->token->offset;
    zr_node *node;
    for (int i = 0; i < ZR_COUNT(constants); i++)
        if (zr_parse_skip_word(p, constants[i].word))
            return new_constant(p, offset, constants[i].value, out);
    ZR_PARSE_NEW(p, node, ZR_NODE_NAME, offset);
    ZERO_TRY(zr_parse_name(p, &node->id));
    if (members && zr_parse_skip(p, ".")) {
        node->kind = ZR_NODE_MEMBER;
        node->constant = zr_value_of_text(p->token->text, p->token->length);
        ZERO_TRY(zr_parse_expect_kind(p, ZR_TOKEN_NAME, "a name"));
    }
    *out = node;
    return ZERO_OK;
}

// Takes what stands in the brackets of a list, or of a dictionary: pairs.
static zero_status parse_items(zr_parser *p, const char *end, bool pairs, zr_node_list *list)
{
    const zr_node *item;
    while (!zr_parse_is(p, end)) {
        if (list->count)
            ZERO_TRY(zr_parse_expect(p, ","));
        if (zr_parse_is(p, end))
            break;
        ZERO_TRY(zr_parse_expression(p, &item));
        ZERO_TRY(zr_parse_push(p, list, item));
        if (!pairs)
            continue;
        ZERO_TRY(zr_parse_expect(p, ":"));
        ZERO_TRY(zr_parse_expression(p, &item));
        ZERO_TRY(zr_parse_push(p, list, item));
    }
    return zr_parse_expect(p, end);
}

static zero_status parse_collection(zr_parser *p, bool is_dict, const zr_node **out)
{
    zr_node *node;
    zr_node_list list = {0};
    ZR_PARSE_NEW(p, node, is_dict ? ZR_NODE_DICT : ZR_NODE_LIST, p->token->offset);
    p->token++;
    zero_status status = parse_items(p, is_dict ? "}" : "]", is_dict, &list);
    if (status == ZERO_OK)
        status = zr_parse_take_list(p, &list, node);
    zr_free(list.at);
    *out = node;
    return status;
}

static zero_status parse_brackets(zr_parser *p, const zr_node **out)
{
    p->token++;
    ZERO_TRY(zr_parse_tuple(p, (zr_tuple_form){.brackets = true}, out));
    return zr_parse_expect(p, ")");
}

zero_status zr_parse_primary(zr_parser *p, bool members, const zr_node **out)
{
    const zr_template_token *token = p->token;
    char found[64];
    switch (token->kind) {
    case ZR_TOKEN_NAME: return parse_name(p, members, out);
    case ZR_TOKEN_STRING: return parse_string(p, out);
    case ZR_TOKEN_INTEGER:
        p->token++;
        return new_constant(p, token->offset, zr_value_of_integer(token->integer), out);
    case ZR_TOKEN_REAL:
        p->token++;
        return new_constant(p, token->offset, zr_value_of_real(token->real), out);
    default: break;
    }
    if (zr_parse_is(p, "("))
        return parse_brackets(p, out);
    if (zr_parse_is(p, "[") || zr_parse_is(p, "{"))
        return parse_collection(p, zr_parse_is(p, "{"), out);
    return ZR_PARSE_FAIL(p, "an expression is due, and here is %s", zr_parse_describe(p, found));
}

// Takes a part of a slice, which may be left out.
static zero_status parse_slice_part(zr_parser *p, const zr_node **out)
{
    *out = NULL;
    return zr_parse_is(p, ":") || zr_parse_is(p, "]") || zr_parse_is(p, ",")
               ? ZERO_OK
               : zr_parse_expression(p, out);
}

// Takes an index, or a slice: [from:to:step].
static zero_status parse_index(zr_parser *p, const zr_node **out)
{
    size_t offset = p->token->offset;
    zr_node *node;
    if (!zr_parse_is(p, ":")) {
        ZERO_TRY(zr_parse_expression(p, out));
        if (!zr_parse_is(p, ":"))
            return ZERO_OK;
    } else {
        *out = NULL;
    }
    ZR_PARSE_NEW(p, node, ZR_NODE_SLICE, offset);
    node->left = *out;
    p->token++;
    ZERO_TRY(parse_slice_part(p, &node->right));
    if (zr_parse_skip(p, ":"))
        ZERO_TRY(parse_slice_part(p, &node->other));
    *out = node;
    return ZERO_OK;
}

static zero_status parse_attribute(zr_parser *p, const zr_node **node)
{
    zr_node *out;
    ZR_PARSE_NEW(p, out, ZR_NODE_ATTRIBUTE, p->token->offset);
    p->token++;
    out->left = *node;
    out->constant = zr_value_of_text(p->token->text, p->token->length);
    *node = out;
    if (p->token->kind != ZR_TOKEN_INTEGER)
        return zr_parse_expect_kind(p, ZR_TOKEN_NAME, "a name or a number");
    out->kind = ZR_NODE_ITEM;
    zr_chat_value number = zr_value_of_integer(p->token->integer);
    p->token++;
    return new_constant(p, out->offset, number, &out->right);
}

static zero_status parse_item(zr_parser *p, const zr_node **node)
{
    zr_node *out;
    ZR_PARSE_NEW(p, out, ZR_NODE_ITEM, p->token->offset);
    p->token++;
    out->left = *node;
    ZERO_TRY(parse_index(p, &out->right));
    *node = out;
    return zr_parse_expect(p, "]");
}

static zero_status parse_call(zr_parser *p, const zr_node **node)
{
    zr_node *out;
    ZR_PARSE_NEW(p, out, ZR_NODE_CALL, p->token->offset);
    out->left = *node;
    *node = out;
    return zr_parse_arguments(p, &out->arguments);
}

zero_status zr_parse_postfix(zr_parser *p, const zr_node **node)
{
    int links = 0;
    zero_status status = ZERO_OK;
    for (; status == ZERO_OK; links++) {
        if (!zr_parse_is(p, ".") && !zr_parse_is(p, "[") && !zr_parse_is(p, "("))
            break;
        if (links == ZR_TEMPLATE_DEPTH)
            return ZR_PARSE_FAIL(p, "more than %d subscripts in a row", ZR_TEMPLATE_DEPTH);
        status = zr_parse_is(p, ".")   ? parse_attribute(p, node)
                 : zr_parse_is(p, "[") ? parse_item(p, node)
                                       : parse_call(p, node);
    }
    return status;
}

static zero_status parse_argument(zr_parser *p, zr_node_argument *out)
{
    *out = (zr_node_argument){.stars = zr_parse_skip(p, "*") ? 1 : zr_parse_skip(p, "**") ? 2 : 0};
    const zr_template_token *next = p->token + 1;
    if (!out->stars && p->token->kind == ZR_TOKEN_NAME && next->kind == ZR_TOKEN_OPERATOR &&
        next->length == 1 && *next->text == '=') {
        out->name = p->token->text;
        out->name_length = p->token->length;
        p->token += 2;
    }
    return zr_parse_expression(p, &out->value);
}

// Checks that what comes by position stands before what comes by name.
static zero_status check_order(zr_parser *p, const zr_node_argument *before, int count,
                               const zr_node_argument *argument)
{
    bool named = false, starred = false;
    for (int i = 0; i < count; i++) {
        named |= before[i].name != NULL || before[i].stars == 2;
        starred |= before[i].stars != 0;
    }
    bool positional = !argument->name && !argument->stars;
    return positional && (named || starred)
               ? ZR_PARSE_FAIL(p, "an argument by position after one by name")
               : ZERO_OK;
}

static zero_status parse_argument_list(zr_parser *p, zr_node_argument **list, int *count)
{
    int capacity = 0;
    while (!zr_parse_is(p, ")")) {
        if (*count)
            ZERO_TRY(zr_parse_expect(p, ","));
        if (zr_parse_is(p, ")"))
            break;
        zr_node_argument *grown = zr_list_grow(*list, *count, &capacity, sizeof **list, p->error);
        if (!grown)
            return ZERO_ERR_MEMORY;
        *list = grown;
        ZERO_TRY(parse_argument(p, &grown[*count]));
        ZERO_TRY(check_order(p, grown, *count, &grown[*count]));
        ++*count;
    }
    return zr_parse_expect(p, ")");
}

zero_status zr_parse_arguments(zr_parser *p, zr_node_arguments *out)
{
    zr_node_argument *list = NULL;
    int count = 0;
    ZERO_TRY(zr_parse_enter(p));
    zero_status status = zr_parse_expect(p, "(");
    if (status == ZERO_OK)
        status = parse_argument_list(p, &list, &count);
    p->depth--;
    size_t bytes = (size_t)count * sizeof *list;
    if (status == ZERO_OK) {
        out->at = zr_value_memory_take(&p->of->memory, bytes);
        out->count = count;
        if (!out->at)
            status = zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for the chat template",
                             p->of->name);
        else if (bytes)
            memcpy(out->at, list, bytes);
    }
    zr_free(list);
    return status;
}

zero_status zr_parse_filters(zr_parser *p, bool begun, const zr_node **node)
{
    for (int links = 0; begun || zr_parse_skip(p, "|"); links++, begun = false) {
        zr_node *out;
        const zr_template_token *name = p->token;
        if (links == ZR_TEMPLATE_DEPTH)
            return ZR_PARSE_FAIL(p, "more than %d filters in a row", ZR_TEMPLATE_DEPTH);
        ZR_PARSE_NEW(p, out, ZR_NODE_FILTER, name->offset);
        ZERO_TRY(zr_parse_expect_kind(p, ZR_TOKEN_NAME, "the name of a filter"));
        out->left = *node;
        out->constant = zr_value_of_text(name->text, name->length);
        out->builtin = zr_filter_find(name->text, name->length);
        if (zr_parse_is(p, "("))
            ZERO_TRY(zr_parse_arguments(p, &out->arguments));
        *node = out;
    }
    return ZERO_OK;
}

// Takes the argument of a test without brackets, if there is one: "x is divisibleby 3".
static zero_status parse_test_argument(zr_parser *p, zr_node_arguments *out)
{
    const zr_template_token_kind kind = p->token->kind;
    bool begins = (kind >= ZR_TOKEN_NAME && kind <= ZR_TOKEN_REAL) || zr_parse_is(p, "[") ||
                  zr_parse_is(p, "{");
    if (!begins || zr_parse_is_word(p, "else") || zr_parse_is_word(p, "or") ||
        zr_parse_is_word(p, "and"))
        return ZERO_OK;
    if (zr_parse_is_word(p, "is"))
        return ZR_PARSE_FAIL(p, "one test after another: \"and\" is missing");
    out->at = zr_value_memory_take(&p->of->memory, sizeof *out->at);
    if (!out->at)
        return zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for a test", p->of->name);
    ZERO_TRY(zr_parse_primary(p, false, &out->at->value));
    ZERO_TRY(zr_parse_postfix(p, &out->at->value));
    out->count = 1;
    return ZERO_OK;
}

static zero_status parse_test(zr_parser *p, const zr_node **node)
{
    zr_node *test, *not ;
    size_t offset = p->token->offset;
    p->token++;
    bool negated = zr_parse_skip_word(p, "not");
    const zr_template_token *name = p->token;
    ZR_PARSE_NEW(p, test, ZR_NODE_TEST, offset);
    ZERO_TRY(zr_parse_expect_kind(p, ZR_TOKEN_NAME, "the name of a test"));
    test->left = *node;
    test->constant = zr_value_of_text(name->text, name->length);
    test->builtin = zr_test_find(name->text, name->length);
    ZERO_TRY(zr_parse_is(p, "(") ? zr_parse_arguments(p, &test->arguments)
                                 : parse_test_argument(p, &test->arguments));
    *node = test;
    if (!negated)
        return ZERO_OK;
    ZR_PARSE_NEW(p, not, ZR_NODE_NOT, offset);
    not ->left = test;
    *node = not ;
    return ZERO_OK;
}

zero_status zr_parse_unary(zr_parser *p, bool filters, const zr_node **out)
{
    zero_status status;
    ZERO_TRY(zr_parse_enter(p));
    if (zr_parse_is(p, "-") || zr_parse_is(p, "+")) {
        zr_node *node = zr_parse_node(p, ZR_NODE_SIGN, p->token->offset);
        if (!node)
            return ZERO_ERR_MEMORY;
        node->operation = zr_parse_is(p, "-") ? ZR_OP_SUBTRACT : ZR_OP_ADD;
        p->token++;
        status = zr_parse_unary(p, false, &node->left);
        *out = node;
    } else {
        status = zr_parse_primary(p, false, out);
    }
    if (status == ZERO_OK)
        status = zr_parse_postfix(p, out);
    for (int links = 0; status == ZERO_OK && filters; links++) {
        if (links == ZR_TEMPLATE_DEPTH)
            return ZR_PARSE_FAIL(p, "more than %d tests and filters in a row", ZR_TEMPLATE_DEPTH);
        if (zr_parse_is(p, "|"))
            status = zr_parse_filters(p, false, out);
        else if (zr_parse_is_word(p, "is"))
            status = parse_test(p, out);
        else if (zr_parse_is(p, "("))
            status = parse_call(p, out);
        else
            break;
    }
    p->depth--;
    return status;
}
