// Operators, from those that bind least: x if y else z, or, and, not, comparisons, + -, ~, * / //
// %, **. Then tuples and targets, which consist of expressions.
#include "chat/template_parser.h"

#include <string.h>

typedef zero_status parse_part(zr_parser *p, const zr_node **out);

typedef struct operator_row {
    const char *text;
    zr_operator operation;
} operator_row;

static const operator_row sums[] = {{"+", ZR_OP_ADD}, {"-", ZR_OP_SUBTRACT}, {NULL, 0}};
static const operator_row products[] = {{"*", ZR_OP_MULTIPLY},
                                        {"/", ZR_OP_DIVIDE},
                                        {"//", ZR_OP_FLOOR_DIVIDE},
                                        {"%", ZR_OP_MODULO},
                                        {NULL, 0}};
static const operator_row powers[] = {{"**", ZR_OP_POWER}, {NULL, 0}};
static const operator_row comparisons[] = {
    {"==", ZR_OP_EQUAL},  {"!=", ZR_OP_UNEQUAL},       {"<", ZR_OP_LESS}, {"<=", ZR_OP_LESS_EQUAL},
    {">", ZR_OP_GREATER}, {">=", ZR_OP_GREATER_EQUAL}, {NULL, 0}};

static bool take_operator(zr_parser *p, const operator_row *rows, zr_operator *operation)
{
    for (; rows->text; rows++)
        if (zr_parse_skip(p, rows->text)) {
            *operation = rows->operation;
            return true;
        }
    return false;
}

static bool take_comparison(zr_parser *p, zr_operator *operation)
{
    if (take_operator(p, comparisons, operation))
        return true;
    const zr_template_token *next = p->token + (p->token->kind != ZR_TOKEN_END);
    bool in = zr_parse_skip_word(p, "in");
    *operation = in ? ZR_OP_IN : ZR_OP_NOT_IN;
    if (in || !zr_parse_is_word(p, "not") || next->kind != ZR_TOKEN_NAME || next->length != 2 ||
        memcmp(next->text, "in", 2))
        return in;
    p->token += 2;
    return true;
}

// Takes what follows the first part of a chain into *list.
static zero_status parse_operands(zr_parser *p, const operator_row *rows, parse_part *part,
                                  zr_node_list *list)
{
    zr_operator operation;
    for (;;) {
        zr_node *operand;
        size_t offset = p->token->offset;
        if (!(rows == comparisons ? take_comparison(p, &operation)
                                  : take_operator(p, rows, &operation)))
            return ZERO_OK;
        ZR_PARSE_NEW(p, operand, ZR_NODE_OPERAND, offset);
        operand->operation = operation;
        ZERO_TRY(part(p, &operand->left));
        ZERO_TRY(zr_parse_push(p, list, operand));
    }
}

static zero_status parse_chain(zr_parser *p, zr_node_kind kind, const operator_row *rows,
                               parse_part *part, const zr_node **out)
{
    zr_node_list list = {0};
    zr_node *node;
    size_t offset = p->token->offset;
    ZERO_TRY(part(p, out));
    zero_status status = parse_operands(p, rows, part, &list);
    if (status == ZERO_OK && list.count) {
        node = zr_parse_node(p, kind, offset);
        status = node ? zr_parse_take_list(p, &list, node) : ZERO_ERR_MEMORY;
        if (node) {
            node->left = *out;
            *out = node;
        }
    }
    zr_free(list.at);
    return status;
}

// Takes parts that a word or an operator stands between, as one node; a single part stays as it is.
static zero_status parse_joined(zr_parser *p, zr_node_kind kind, const char *between,
                                parse_part *part, const zr_node **out)
{
    zr_node_list list = {0};
    zr_node *node;
    size_t offset = p->token->offset;
    zero_status status;
    do {
        status = part(p, out);
        if (status == ZERO_OK)
            status = zr_parse_push(p, &list, *out);
    } while (status == ZERO_OK && (zr_parse_skip(p, between) || zr_parse_skip_word(p, between)));
    if (status == ZERO_OK && list.count > 1) {
        node = zr_parse_node(p, kind, offset);
        status = node ? zr_parse_take_list(p, &list, node) : ZERO_ERR_MEMORY;
        *out = node;
    }
    zr_free(list.at);
    return status;
}

static zero_status parse_whole_unary(zr_parser *p, const zr_node **out)
{
    return zr_parse_unary(p, true, out);
}

static zero_status parse_power(zr_parser *p, const zr_node **out)
{
    return parse_chain(p, ZR_NODE_ARITHMETIC, powers, parse_whole_unary, out);
}

static zero_status parse_product(zr_parser *p, const zr_node **out)
{
    return parse_chain(p, ZR_NODE_ARITHMETIC, products, parse_power, out);
}

static zero_status parse_concat(zr_parser *p, const zr_node **out)
{
    return parse_joined(p, ZR_NODE_CONCAT, "~", parse_product, out);
}

static zero_status parse_sum(zr_parser *p, const zr_node **out)
{
    return parse_chain(p, ZR_NODE_ARITHMETIC, sums, parse_concat, out);
}

static zero_status parse_not(zr_parser *p, const zr_node **out)
{
    zr_node *node;
    size_t offset = p->token->offset;
    if (!zr_parse_skip_word(p, "not"))
        return parse_chain(p, ZR_NODE_COMPARE, comparisons, parse_sum, out);
    ZERO_TRY(zr_parse_enter(p));
    ZR_PARSE_NEW(p, node, ZR_NODE_NOT, offset);
    ZERO_TRY(parse_not(p, &node->left));
    *out = node;
    p->depth--;
    return ZERO_OK;
}

static zero_status parse_and(zr_parser *p, const zr_node **out)
{
    return parse_joined(p, ZR_NODE_AND, "and", parse_not, out);
}

zero_status zr_parse_or(zr_parser *p, const zr_node **out)
{
    return parse_joined(p, ZR_NODE_OR, "or", parse_and, out);
}

zero_status zr_parse_expression(zr_parser *p, const zr_node **out)
{
    zr_node *node;
    int links = 0;
    ZERO_TRY(zr_parse_or(p, out));
    for (; zr_parse_is_word(p, "if"); links++) {
        if (links == ZR_TEMPLATE_DEPTH)
            return ZR_PARSE_FAIL(p, "more than %d conditions in a row", ZR_TEMPLATE_DEPTH);
        ZR_PARSE_NEW(p, node, ZR_NODE_CONDITION, p->token->offset);
        p->token++;
        node->left = *out;
        ZERO_TRY(zr_parse_or(p, &node->right));
        if (zr_parse_skip_word(p, "else")) {
            ZERO_TRY(zr_parse_enter(p));
            ZERO_TRY(zr_parse_expression(p, &node->other));
            p->depth--;
        }
        *out = node;
    }
    return ZERO_OK;
}

static bool ends_tuple(const zr_parser *p, const char *word)
{
    return p->token->kind == ZR_TOKEN_VARIABLE_END || p->token->kind == ZR_TOKEN_BLOCK_END ||
           zr_parse_is(p, ")") || (word && zr_parse_is_word(p, word));
}

static zero_status parse_tuple_items(zr_parser *p, zr_tuple_form form, zr_node_list *list,
                                     bool *is_tuple)
{
    const zr_node *item;
    for (;;) {
        if (list->count)
            ZERO_TRY(zr_parse_expect(p, ","));
        if (ends_tuple(p, form.end))
            return ZERO_OK;
        ZERO_TRY(form.targets        ? zr_parse_primary(p, form.members, &item)
                 : form.no_condition ? zr_parse_or(p, &item)
                                     : zr_parse_expression(p, &item));
        ZERO_TRY(zr_parse_push(p, list, item));
        if (!zr_parse_is(p, ","))
            return ZERO_OK;
        *is_tuple = true;
    }
}

zero_status zr_parse_tuple(zr_parser *p, zr_tuple_form form, const zr_node **out)
{
    zr_node_list list = {0};
    zr_node *node;
    bool is_tuple = false;
    char found[64];
    size_t offset = p->token->offset;
    zero_status status = parse_tuple_items(p, form, &list, &is_tuple);
    if (status == ZERO_OK && !is_tuple && list.count)
        *out = list.at[0];
    else if (status == ZERO_OK && !is_tuple && !form.brackets)
        status =
            ZR_PARSE_FAIL(p, "an expression is due, and here is %s", zr_parse_describe(p, found));
    else if (status == ZERO_OK) {
        node = zr_parse_node(p, ZR_NODE_TUPLE, offset);
        status = node ? zr_parse_take_list(p, &list, node) : ZERO_ERR_MEMORY;
        *out = node;
    }
    zr_free(list.at);
    return status;
}

static bool can_be_assigned(const zr_node *node)
{
    bool can =
        node->kind == ZR_NODE_NAME || node->kind == ZR_NODE_MEMBER || node->kind == ZR_NODE_TUPLE;
    for (int i = 0; can && node->kind == ZR_NODE_TUPLE && i < node->count; i++)
        can = can_be_assigned(node->items[i]);
    return can;
}

zero_status zr_parse_target(zr_parser *p, bool members, const char *end, const zr_node **out)
{
    zr_tuple_form form = {.targets = true, .members = members, .end = end};
    ZERO_TRY(zr_parse_tuple(p, form, out));
    return can_be_assigned(*out) ? ZERO_OK
                                 : zr_template_fail(&p->of->source, (*out)->offset, ZERO_ERR_DATA,
                                                    p->error, "nothing can be assigned to this");
}
