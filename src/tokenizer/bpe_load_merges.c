// Loads the merges of a BPE, from tokenizer.json or merges.txt. They merge existing tokens into
// existing tokens. A merge makes a longer token, so merges cannot form a cycle.
#include "tokenizer/bpe_load.h"

#include <string.h>

typedef struct pair { // as the file spells it
    int64_t rank;
    const char *left, *right;
    size_t left_length, right_length;
} pair;

static zero_status refuse_merge(const zr_bpe_loader *loader, const pair *of, const char *why,
                                zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: merge %lld, \"%.*s\" and \"%.*s\": %s", loader->path,
                   (long long)of->rank, (int)ZR_MIN(of->left_length, (size_t)100), of->left,
                   (int)ZR_MIN(of->right_length, (size_t)100), of->right, why);
}

static zero_status put_merge(zr_bpe_loader *loader, const pair *of, zr_buffer *joined,
                             zero_error *error)
{
    const zr_text_span_map *ids = &loader->bpe->ids;
    joined->length = 0;
    zr_buffer_append(joined, of->left, of->left_length);
    zr_buffer_append(joined, of->right, of->right_length);
    if (joined->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its merges", loader->path);
    zr_merge merge = {
        .left = zr_text_span_map_find(ids, of->left, of->left_length),
        .right = zr_text_span_map_find(ids, of->right, of->right_length),
        .rank = (int32_t)of->rank,
        .id = zr_text_span_map_find(ids, joined->data, joined->length),
    };
    if (merge.left < 0)
        return refuse_merge(loader, of, "the first is no token of the vocabulary", error);
    if (merge.right < 0)
        return refuse_merge(loader, of, "the second is no token of the vocabulary", error);
    if (merge.id < 0)
        return refuse_merge(loader, of, "together they are no token of the vocabulary", error);
    zr_merge_map_insert(&loader->bpe->merges, merge);
    return ZERO_OK;
}

// Loads "a b": two tokens with one space in between.
static zero_status put_merge_line(zr_bpe_loader *loader, int64_t rank, const char *line,
                                  size_t length, zr_buffer *joined, zero_error *error)
{
    const char *space = memchr(line, ' ', length);
    size_t left = space ? (size_t)(space - line) : 0, right = space ? length - left - 1 : 0;
    if (!left || !right || memchr(space + 1, ' ', right))
        return zr_fail(
            error, ZERO_ERR_DATA,
            "%s: merge %lld is \"%.*s\", where two tokens with a space between are needed",
            loader->path, (long long)rank, (int)ZR_MIN(length, (size_t)100), line);
    const pair of = {
        .rank = rank, .left = line, .left_length = left, .right = space + 1, .right_length = right};
    return put_merge(loader, &of, joined, error);
}

static zero_status put_json_merge(zr_bpe_loader *loader, int64_t rank, const json_t *item,
                                  zr_buffer *joined, zero_error *error)
{
    if (json_is_string(item))
        return put_merge_line(loader, rank, json_string_value(item), json_string_length(item),
                              joined, error);
    const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
    if (json_array_size(item) != 2 || !json_string_length(left) || !json_string_length(right))
        return zr_fail(error, ZERO_ERR_DATA, "%s: merge %lld is no pair of tokens", loader->path,
                       (long long)rank);
    const pair of = {
        .rank = rank,
        .left = json_string_value(left),
        .left_length = json_string_length(left),
        .right = json_string_value(right),
        .right_length = json_string_length(right),
    };
    return put_merge(loader, &of, joined, error);
}

zero_status zr_bpe_load_merges(zr_bpe_loader *loader, const json_t *merges, zero_error *error)
{
    size_t count = json_array_size(merges);
    zr_buffer joined = {0};
    if (merges && !json_is_null(merges) && !json_is_array(merges))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the model's \"merges\" is no list", loader->path);
    zero_status status = zr_merge_map_create((int64_t)count, &loader->bpe->merges, error);
    for (size_t i = 0; i < count && status == ZERO_OK; i++)
        status = put_json_merge(loader, (int64_t)i, json_array_get(merges, i), &joined, error);
    zr_buffer_free(&joined);
    return status;
}

bool zr_merges_next_line(const char *text, size_t length, size_t *at, const char **line,
                         size_t *bytes)
{
    while (*at < length) {
        const char *end = memchr(text + *at, '\n', length - *at);
        size_t whole = end ? (size_t)(end - text) - *at : length - *at;
        *line = text + *at;
        *bytes = whole - (whole > 0 && (*line)[whole - 1] == '\r');
        *at += whole + 1;
        if (*bytes && !(*bytes >= 8 && memcmp(*line, "#version", 8) == 0))
            return true;
    }
    return false;
}

zero_status zr_bpe_load_merges_text(zr_bpe_loader *loader, const char *text, size_t length,
                                    zero_error *error)
{
    int64_t lines = 1, rank = 0;
    size_t at = 0, bytes;
    const char *line;
    zr_buffer joined = {0};
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    zero_status status = zr_merge_map_create(lines, &loader->bpe->merges, error);
    while (status == ZERO_OK && zr_merges_next_line(text, length, &at, &line, &bytes))
        status = put_merge_line(loader, rank++, line, bytes, &joined, error);
    zr_buffer_free(&joined);
    return status;
}
