// What follows from the nodes of a schema: which node ends where, levels, lists, and which columns
// are read.
#include "data/parquet_internal.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static bool is_leaf(const zr_parquet_node *node) { return node->type != ZR_PARQUET_GROUP; }

// Returns whether the column's values are something that JSON has.
static bool is_read(const zr_parquet_node *node)
{
    switch (node->type) {
    case ZR_PARQUET_BOOLEAN:
    case ZR_PARQUET_FLOAT:
    case ZR_PARQUET_DOUBLE: return true;
    case ZR_PARQUET_INT32:
    case ZR_PARQUET_INT64:
        return node->meaning == ZR_PARQUET_PLAIN || node->meaning == ZR_PARQUET_UNSIGNED;
    case ZR_PARQUET_BINARY:
        return node->meaning == ZR_PARQUET_PLAIN || node->meaning == ZR_PARQUET_TEXT_MEANT;
    default: return false;
    }
}

static zero_status refuse_schema(const zr_parquet *file, zero_error *error)
{
    return zr_parquet_damaged(file->path, "its schema", error);
}

static zero_status check_node(const zr_parquet *file, const zr_parquet_node *node,
                              zero_error *error)
{
    bool right = (int)node->type >= 0 && node->type <= ZR_PARQUET_GROUP &&
                 (int)node->repetition >= 0 && node->repetition <= ZR_PARQUET_REPEATED &&
                 node->children >= 0 && (is_leaf(node) ? !node->children : node->children > 0);
    return right ? ZERO_OK : refuse_schema(file, error);
}

// Fills node *at, its children and theirs; *at becomes the node after them.
static zero_status fill_node(zr_parquet *file, int *at, int define, int repeat, int depth,
                             zero_error *error)
{
    if (*at >= file->node_count || depth > ZR_PARQUET_DEPTH)
        return refuse_schema(file, error);
    int index = (*at)++;
    zr_parquet_node *node = &file->nodes[index];
    ZERO_TRY(check_node(file, node, error));
    node->define = define + (index && node->repetition != ZR_PARQUET_REQUIRED);
    node->repeat = repeat + (index && node->repetition == ZR_PARQUET_REPEATED);
    if (is_leaf(node)) {
        node->leaf = is_read(node) ? file->columns : -1;
        file->leaves[file->columns++] = index;
    }
    for (int64_t i = 0; i < node->children; i++) {
        const zr_parquet_node *child = &file->nodes[*at];
        ZERO_TRY(fill_node(file, at, node->define, node->repeat, depth + 1, error));
        if (node->leaf < 0)
            node->leaf = child->leaf;
    }
    node->end = *at;
    return ZERO_OK;
}

// The rules of parquet-format (LogicalTypes) for lists of older writers, whose repeated group is
// the item itself.
static bool is_item_itself(const zr_parquet *file, int list, int repeated)
{
    const zr_parquet_node *node = &file->nodes[repeated];
    char tuple[256];
    snprintf(tuple, sizeof tuple, "%.200s_tuple", file->nodes[list].name);
    return is_leaf(node) || node->children > 1 || !strcmp(node->name, "array") ||
           !strcmp(node->name, tuple) ||
           file->nodes[repeated + 1].repetition == ZR_PARQUET_REPEATED;
}

// Finds the item of a group that is annotated as a list: a single child that is repeated.
static void find_item(zr_parquet *file, int list)
{
    zr_parquet_node *node = &file->nodes[list];
    int repeated = list + 1;
    if (is_leaf(node) || node->meaning != ZR_PARQUET_LIST || node->children != 1 ||
        file->nodes[repeated].repetition != ZR_PARQUET_REPEATED)
        return;
    node->item = is_item_itself(file, list, repeated) ? repeated : repeated + 1;
}

zero_status zr_parquet_read_schema(zr_parquet *file, zero_error *error)
{
    int at = 0;
    file->leaves = zr_alloc((size_t)file->node_count * sizeof *file->leaves, error);
    if (!file->leaves)
        return ZERO_ERR_MEMORY;
    file->nodes[0].repetition = ZR_PARQUET_REQUIRED;
    ZERO_TRY(fill_node(file, &at, 0, 0, 0, error));
    if (at != file->node_count || is_leaf(&file->nodes[0]))
        return refuse_schema(file, error);
    for (int i = 1; i < file->node_count; i++)
        find_item(file, i);
    return ZERO_OK;
}
