// A parsed template: a tree of nodes. Chains (a + b - c, a and b and c) are one node with a list,
// so that the tree is as deep as its brackets are.
#ifndef ZR_CHAT_TEMPLATE_NODES_H
#define ZR_CHAT_TEMPLATE_NODES_H

#include "chat/template.h"
#include "chat/template_lexer.h"
#include "chat/value.h"

typedef enum zr_node_kind {
    // Expressions.
    ZR_NODE_CONSTANT,   // constant
    ZR_NODE_NAME,       // id
    ZR_NODE_LIST,       // [items]
    ZR_NODE_TUPLE,      // (items)
    ZR_NODE_DICT,       // {items: key, value, key, value, ...}
    ZR_NODE_ATTRIBUTE,  // left.constant
    ZR_NODE_ITEM,       // left[right]
    ZR_NODE_SLICE,      // left:right:other as the right of an item; each may be NULL
    ZR_NODE_CALL,       // left(arguments)
    ZR_NODE_FILTER,     // left | filter(arguments); left is NULL for the text of a block
    ZR_NODE_TEST,       // left is test(arguments)
    ZR_NODE_NOT,        // not left
    ZR_NODE_SIGN,       // operator - or +, left
    ZR_NODE_ARITHMETIC, // left, then items: each an operand with its operator
    ZR_NODE_CONCAT,     // items ~ ...
    ZR_NODE_COMPARE,    // left, then items: each an operand with its operator
    ZR_NODE_OPERAND,    // operator, left
    ZR_NODE_AND,        // items
    ZR_NODE_OR,         // items
    ZR_NODE_CONDITION,  // left if right else other; other may be NULL
    ZR_NODE_MEMBER,     // id.constant as a target: a namespace's
    // Statements.
    ZR_NODE_BLOCK,      // items
    ZR_NODE_DATA,       // constant
    ZR_NODE_OUTPUT,     // {{ left }}
    ZR_NODE_IF,         // items: condition, block, condition, block, ...; other: else, or NULL
    ZR_NODE_FOR,        // for left in right if other; items: the block, else's block or NULL
    ZR_NODE_SET,        // left = right
    ZR_NODE_SET_BLOCK,  // left = the text of other, through the filters right (NULL: none)
    ZR_NODE_MACRO,      // id; items: parameters (names, left is the default or NULL); other: block
    ZR_NODE_CALL_BLOCK, // the call left; the caller is a macro without a name: items, other
    ZR_NODE_GENERATION, // left: block
    ZR_NODE_FILTER_BLOCK, // the text of left through the filters right
    ZR_NODE_WITH,         // items: target, value, ...; other: block
    ZR_NODE_BREAK,
    ZR_NODE_CONTINUE,
} zr_node_kind;

typedef enum zr_operator {
    ZR_OP_ADD,
    ZR_OP_SUBTRACT,
    ZR_OP_MULTIPLY,
    ZR_OP_DIVIDE,
    ZR_OP_FLOOR_DIVIDE,
    ZR_OP_MODULO,
    ZR_OP_POWER,
    ZR_OP_EQUAL,
    ZR_OP_UNEQUAL,
    ZR_OP_LESS,
    ZR_OP_LESS_EQUAL,
    ZR_OP_GREATER,
    ZR_OP_GREATER_EQUAL,
    ZR_OP_IN,
    ZR_OP_NOT_IN,
} zr_operator;

typedef struct zr_node zr_node;

typedef struct zr_node_argument {
    const zr_node *value;
    const char *name; // NULL: by position
    size_t name_length;
    int stars; // 1: *value, 2: **value
} zr_node_argument;

typedef struct zr_node_arguments {
    zr_node_argument *at; // (count)
    int count;
} zr_node_arguments;

struct zr_node {
    zr_node_kind kind;
    zr_operator operation;
    int id;        // of a name
    size_t offset; // in the source
    const zr_node *left, *right, *other;
    const zr_node **items; // (count)
    int count;
    zr_node_arguments arguments;
    zr_chat_value constant;
    const struct zr_builtin *builtin; // of a filter or test; NULL if no such one is built
    // Of a macro: its block names these.
    bool names_varargs, names_kwargs, names_caller;
};

typedef struct zr_template_name {
    const char *text;
    size_t length;
} zr_template_name;

struct zr_template {
    char *name;
    char *original; // as it was given
    size_t original_length;
    zr_template_source source;
    zr_value_memory memory;  // of the tree
    zr_template_name *names; // (name_count) of variables; a node has their index
    int name_count, name_capacity;
    const zr_node *root;
    bool marks_answers;
};

#endif
