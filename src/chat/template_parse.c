// The frame of a template's parser: tokens, nodes, names and lists.
#include "chat/template_parser.h"
#include "chat/unicode_text.h"

#include <stdio.h>
#include <string.h>

zr_node *zr_parse_node(zr_parser *p, zr_node_kind kind, size_t offset)
{
    zr_node *node = zr_value_memory_take(&p->of->memory, sizeof *node);
    if (node) {
        node->kind = kind;
        node->offset = offset;
    } else {
        zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for the chat template", p->of->name);
    }
    return node;
}

zero_status zr_parse_push(zr_parser *p, zr_node_list *list, const zr_node *node)
{
    const zr_node **at = zr_list_grow(list->at, list->count, &list->capacity, sizeof *at, p->error);
    if (!at)
        return ZERO_ERR_MEMORY;
    list->at = at;
    at[list->count++] = node;
    return ZERO_OK;
}

zero_status zr_parse_take_list(zr_parser *p, zr_node_list *list, zr_node *node)
{
    size_t bytes = (size_t)list->count * sizeof *list->at;
    node->items = zr_value_memory_take(&p->of->memory, bytes);
    if (node->items && bytes)
        memcpy(node->items, list->at, bytes);
    node->count = list->count;
    zr_free(list->at);
    *list = (zr_node_list){0};
    return node->items ? ZERO_OK
                       : zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for the chat template",
                                 p->of->name);
}

static bool token_is(const zr_template_token *token, zr_template_token_kind kind, const char *text)
{
    return token->kind == kind && token->length == strlen(text) &&
           !memcmp(token->text, text, token->length);
}

bool zr_parse_is(const zr_parser *p, const char *operator)
{
    return token_is(p->token, ZR_TOKEN_OPERATOR, operator);
}

bool zr_parse_is_word(const zr_parser *p, const char *word)
{
    return token_is(p->token, ZR_TOKEN_NAME, word);
}

bool zr_parse_skip(zr_parser *p, const char *operator)
{
    bool is = zr_parse_is(p, operator);
    p->token += is;
    return is;
}

bool zr_parse_skip_word(zr_parser *p, const char *word)
{
    bool is = zr_parse_is_word(p, word);
    p->token += is;
    return is;
}

const char *zr_parse_describe(const zr_parser *p, char out[static 64])
{
    const zr_template_token *token = p->token;
    static const char *const kinds[] = {[ZR_TOKEN_END] = "the end of the template",
                                        [ZR_TOKEN_DATA] = "text",
                                        [ZR_TOKEN_VARIABLE_BEGIN] = "{{",
                                        [ZR_TOKEN_VARIABLE_END] = "}}",
                                        [ZR_TOKEN_BLOCK_BEGIN] = "{%",
                                        [ZR_TOKEN_BLOCK_END] = "%}",
                                        [ZR_TOKEN_STRING] = "a string",
                                        [ZR_TOKEN_INTEGER] = "a number",
                                        [ZR_TOKEN_REAL] = "a number"};
    if (token->kind == ZR_TOKEN_NAME || token->kind == ZR_TOKEN_OPERATOR)
        snprintf(out, 64, "\"%.*s\"", (int)ZR_MIN(token->length, (size_t)40), token->text);
    else
        snprintf(out, 64, "%s", kinds[token->kind]);
    return out;
}

zero_status zr_parse_expect(zr_parser *p, const char *operator)
{
    char found[64];
    return zr_parse_skip(p, operator) ? ZERO_OK
                                      : ZR_PARSE_FAIL(p, "\"%s\" is due, and here is %s", operator,
                                                      zr_parse_describe(p, found));
}

zero_status zr_parse_expect_kind(zr_parser *p, zr_template_token_kind kind, const char *what)
{
    char found[64];
    if (p->token->kind != kind)
        return ZR_PARSE_FAIL(p, "%s is due, and here is %s", what, zr_parse_describe(p, found));
    p->token++;
    return ZERO_OK;
}

zero_status zr_parse_enter(zr_parser *p)
{
    if (p->depth == ZR_TEMPLATE_DEPTH)
        return ZR_PARSE_FAIL(p, "more than %d blocks and brackets within one another",
                             ZR_TEMPLATE_DEPTH);
    p->depth++;
    return ZERO_OK;
}

static zero_status find_name(zr_parser *p, const zr_template_token *token, int *id)
{
    zr_template *of = p->of;
    for (*id = 0; *id < of->name_count; ++*id)
        if (of->names[*id].length == token->length &&
            !memcmp(of->names[*id].text, token->text, token->length))
            return ZERO_OK;
    zr_template_name *names =
        zr_list_grow(of->names, of->name_count, &of->name_capacity, sizeof *names, p->error);
    if (!names)
        return ZERO_ERR_MEMORY;
    of->names = names;
    names[of->name_count++] = (zr_template_name){token->text, token->length};
    return ZERO_OK;
}

zero_status zr_parse_name(zr_parser *p, int *id)
{
    const zr_template_token *token = p->token;
    ZERO_TRY(zr_parse_expect_kind(p, ZR_TOKEN_NAME, "a name"));
    ZERO_TRY(find_name(p, token, id));
    if (p->macro) {
        p->macro->names_varargs |= token_is(token, ZR_TOKEN_NAME, "varargs");
        p->macro->names_kwargs |= token_is(token, ZR_TOKEN_NAME, "kwargs");
        p->macro->names_caller |= token_is(token, ZR_TOKEN_NAME, "caller");
    }
    return ZERO_OK;
}

// Copies the text with \n for each line end (\r\n, \r), and without the last one, as Jinja does.
static void copy_source(zr_template_source *source, const char *text, size_t length)
{
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n')
            continue;
        source->text[at++] = text[i] == '\r' ? '\n' : text[i];
    }
    at -= at && source->text[at - 1] == '\n';
    source->text[at] = 0;
    source->length = at;
}

static zero_status keep_text(zr_template *of, const char *text, size_t length, const char *name,
                             zero_error *error)
{
    size_t wrong;
    of->name = zr_strdup(name, error);
    of->original = of->name ? zr_alloc(length + 1, error) : NULL;
    of->source.text = of->original ? zr_alloc(length + 1, error) : NULL;
    if (!of->source.text)
        return ZERO_ERR_MEMORY;
    memcpy(of->original, text, length);
    of->original_length = length;
    of->source.name = of->name;
    copy_source(&of->source, text, length);
    if (!zr_text_is_valid(of->source.text, of->source.length, &wrong))
        return zr_template_fail(&of->source, wrong, ZERO_ERR_DATA, error,
                                "a byte that is no UTF-8");
    return ZERO_OK;
}

static zero_status parse_all(zr_template *of, zero_error *error)
{
    static const char *const no_end[] = {NULL};
    zr_template_tokens tokens = {0};
    zero_status status = zr_template_lex(&of->source, &of->memory, &tokens, error);
    zr_parser p = {.of = of, .token = tokens.at, .error = error};
    if (status == ZERO_OK)
        status = zr_parse_block(&p, no_end, &of->root);
    zr_free(tokens.at);
    return status;
}

zero_status zr_template_parse(const char *text, size_t length, const char *name, zr_template **out,
                              zero_error *error)
{
    *out = NULL;
    if (length > ZR_TEMPLATE_SOURCE_BYTES)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a chat template of %zu bytes, more than the %zu that one may have",
                       name, length, ZR_TEMPLATE_SOURCE_BYTES);
    zr_template *of = zr_alloc(sizeof *of, error);
    if (!of)
        return ZERO_ERR_MEMORY;
    of->memory.limit = ZR_TEMPLATE_MEMORY;
    zero_status status = keep_text(of, text, length, name, error);
    if (status == ZERO_OK)
        status = parse_all(of, error);
    if (status == ZERO_OK)
        *out = of;
    else
        zr_template_free(of);
    return status;
}

void zr_template_free(zr_template *of)
{
    if (!of)
        return;
    zr_value_memory_free(&of->memory);
    zr_free(of->names);
    zr_free(of->source.text);
    zr_free(of->original);
    zr_free(of->name);
    zr_free(of);
}

const char *zr_template_text(const zr_template *of, size_t *length)
{
    *length = of->original_length;
    return of->original;
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool zr_template_mentions(const zr_template *of, const char *word)
{
    size_t width = strlen(word), length = of->source.length;
    const char *text = of->source.text;
    for (size_t at = 0; (at = zr_text_search(text, length, at, word, width)) <= length; at++)
        if ((!at || !is_word_byte(text[at - 1])) && !is_word_byte(text[at + width]))
            return true;
    return false;
}

bool zr_template_marks_answers(const zr_template *of) { return of->marks_answers; }
