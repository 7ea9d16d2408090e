// Shared by the files of the parser (template_parse.c, parse_statement.c, parse_expression.c,
// parse_operator.c).
#ifndef ZR_CHAT_TEMPLATE_PARSER_H
#define ZR_CHAT_TEMPLATE_PARSER_H

#include "chat/template_nodes.h"

typedef struct zr_parser {
    zr_template *of;
    const zr_template_token *token; // the next one
    zero_error *error;
    int depth; // of statements and expressions
    int loops; // that enclose this place in the same macro, so that {% break %} has one to leave
    zr_node *macro; // that encloses this place; NULL: not in a macro
} zr_parser;

// Fails at the next token.
#define ZR_PARSE_FAIL(p, ...)                                                                      \
    zr_template_fail(&(p)->of->source, (p)->token->offset, ZERO_ERR_DATA, (p)->error, __VA_ARGS__)

zr_node *zr_parse_node(zr_parser *p, zr_node_kind kind, size_t offset); // NULL: no memory
#define ZR_PARSE_NEW(p, node, kind, offset)                                                        \
    do {                                                                                           \
        if (!((node) = zr_parse_node(p, kind, offset)))                                            \
            return ZERO_ERR_MEMORY;                                                                \
    } while (0)

// A list of nodes that grows; moved into the template's memory when it is complete.
typedef struct zr_node_list {
    const zr_node **at; // (count)
    int count, capacity;
} zr_node_list;
zero_status zr_parse_push(zr_parser *p, zr_node_list *list, const zr_node *node);
zero_status zr_parse_take_list(zr_parser *p, zr_node_list *list, zr_node *node); // frees the list

bool zr_parse_is(const zr_parser *p, const char *operator); // the next token is this operator
bool zr_parse_is_word(const zr_parser *p, const char *word);
bool zr_parse_skip(zr_parser *p, const char *operator);
bool zr_parse_skip_word(zr_parser *p, const char *word);
zero_status zr_parse_expect(zr_parser *p, const char *operator);
zero_status zr_parse_expect_kind(zr_parser *p, zr_template_token_kind kind, const char *what);
// Describes the next token for a message: "the name \"x\"".
const char *zr_parse_describe(const zr_parser *p, char out[static 64]);
zero_status zr_parse_enter(zr_parser *p);         // one level deeper; p->depth-- leaves it
zero_status zr_parse_name(zr_parser *p, int *id); // takes a name

zero_status zr_parse_block(zr_parser *p, const char *const *ends, const zr_node **out);
zero_status zr_parse_statement(zr_parser *p, const zr_node **out);
zero_status zr_parse_expression(zr_parser *p, const zr_node **out); // with x if y else z
zero_status zr_parse_or(zr_parser *p, const zr_node **out);         // without
zero_status zr_parse_unary(zr_parser *p, bool filters, const zr_node **out);
zero_status zr_parse_primary(zr_parser *p, bool members, const zr_node **out);
zero_status zr_parse_postfix(zr_parser *p, const zr_node **node);
// What jinja2's parse_tuple reads: one expression, or a tuple without brackets.
typedef struct zr_tuple_form {
    bool targets;      // only names and what may be assigned to
    bool members;      // the members of namespaces, too
    bool no_condition; // without x if y else z
    bool brackets;     // it stands in brackets, so it may be empty
    const char *end;   // a word that ends it, too; NULL: none
} zr_tuple_form;
zero_status zr_parse_tuple(zr_parser *p, zr_tuple_form form, const zr_node **out);
zero_status zr_parse_target(zr_parser *p, bool members, const char *end, const zr_node **out);
zero_status zr_parse_arguments(zr_parser *p, zr_node_arguments *out); // with their brackets
// Takes a chain of filters ("| a | b(c)"; the first | is left out if `begun`) of *node.
zero_status zr_parse_filters(zr_parser *p, bool begun, const zr_node **node);

#endif
