// Puts the entries of columns together to rows.
//
// An entry's level of definition says how many of its optional and repeated nodes are there, and
// its level of repetition which list it continues (Melnik et al., "Dremel", 2010). All columns
// below a node have the same entries as far as that node is concerned, so the first one decides.
#include "data/parquet_internal.h"

#include "base/alloc.h"

#include <string.h>

typedef struct reader {
    zr_parquet *file;
    const char *name; // of the row
} reader;

static zero_status fail_row(const reader *r, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: %s", r->name, what);
}

static zero_status no_memory(const reader *r, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for it", r->name);
}

static zr_parquet_column *first_column(const reader *r, int node)
{
    return &r->file->cursors[r->file->nodes[node].leaf];
}

// Goes past an entry at which a node is not there, in all columns below it.
static zero_status pass_entry(const reader *r, int node, zero_error *error)
{
    for (int i = node; i < r->file->nodes[node].end; i++) {
        const zr_parquet_node *at = &r->file->nodes[i];
        if (at->type != ZR_PARQUET_GROUP && at->leaf >= 0)
            ZERO_TRY(zr_parquet_column_advance(&r->file->cursors[at->leaf], error));
    }
    return ZERO_OK;
}

// ---- values -------------------------------------------------------------------------------------

static json_t *make_integer(const zr_parquet_node *node, json_int_t value)
{
    if (node->meaning != ZR_PARQUET_UNSIGNED)
        return json_integer(value);
    uint64_t positive = node->type == ZR_PARQUET_INT32 ? (uint32_t)value : (uint64_t)value;
    return positive <= INT64_MAX ? json_integer((json_int_t)positive) : json_real((double)positive);
}

static json_t *make_real(double value)
{
    return value - value == 0 ? json_real(value) : json_null(); // JSON has no infinity
}

// Makes a text; where it is no UTF-8, or has a NUL, what that means depends on the column.
static zero_status make_text(reader *r, const zr_parquet_node *node, zr_thrift_text text,
                             json_t **out, zero_error *error)
{
    r->file->text += text.length;
    if (r->file->text > ZR_PARQUET_TEXT)
        return fail_row(r, "more than 64 MiB of text in a row", error);
    bool right = zr_parquet_is_text(text);
    if (!right && node->meaning == ZR_PARQUET_TEXT_MEANT)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the field \"%s\" is no valid UTF-8, or has a NUL, where text is needed",
                       r->name, node->name);
    *out = right ? json_stringn_nocheck(text.data, text.length) : json_null();
    return ZERO_OK;
}

static zero_status take_value(reader *r, int index, json_t **out, zero_error *error)
{
    const zr_parquet_node *node = &r->file->nodes[index];
    zr_parquet_column *column = &r->file->cursors[node->leaf];
    zr_parquet_value value;
    if (column->define != (uint32_t)node->define)
        return fail_row(r, "a value is missing: the Parquet file is damaged", error);
    ZERO_TRY(zr_parquet_column_take(column, &value, error));
    if (node->type == ZR_PARQUET_BINARY)
        ZERO_TRY(make_text(r, node, value.text, out, error));
    else if (node->type == ZR_PARQUET_BOOLEAN)
        *out = json_boolean(value.integer);
    else if (node->type == ZR_PARQUET_INT32 || node->type == ZR_PARQUET_INT64)
        *out = make_integer(node, value.integer);
    else
        *out = make_real(value.real);
    if (!*out)
        return no_memory(r, error);
    zero_status status = zr_parquet_column_advance(column, error);
    if (status != ZERO_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

// ---- objects and lists --------------------------------------------------------------------------

static zero_status read_node(reader *r, int node, json_t **out, zero_error *error);

static zero_status read_fields(reader *r, int node, json_t *object, zero_error *error)
{
    const zr_parquet_node *nodes = r->file->nodes;
    for (int child = node + 1; child < nodes[node].end; child = nodes[child].end) {
        json_t *value = NULL;
        if (nodes[child].leaf < 0)
            continue;
        ZERO_TRY(read_node(r, child, &value, error));
        if (json_object_set_new_nocheck(object, nodes[child].name, value))
            return no_memory(r, error);
    }
    return ZERO_OK;
}

static zero_status read_items(reader *r, int repeated, int item, json_t *list, zero_error *error);

// Reads a node that is there.
static zero_status read_present(reader *r, int index, json_t **out, zero_error *error)
{
    const zr_parquet_node *node = &r->file->nodes[index];
    if (node->type != ZR_PARQUET_GROUP)
        return take_value(r, index, out, error);
    json_t *made = node->item >= 0 ? json_array() : json_object();
    zero_status status = !made             ? no_memory(r, error)
                         : node->item >= 0 ? read_items(r, index + 1, node->item, made, error)
                                           : read_fields(r, index, made, error);
    if (status == ZERO_OK)
        *out = made;
    else
        json_decref(made);
    return status;
}

// Reads all items of a repeated node; `item` is the node itself or its only child.
static zero_status read_items(reader *r, int repeated, int item, json_t *list, zero_error *error)
{
    const zr_parquet_node *node = &r->file->nodes[repeated];
    const zr_parquet_column *column = first_column(r, repeated);
    if (column->define < (uint32_t)node->define)
        return pass_entry(r, repeated, error);
    do {
        json_t *value = NULL;
        if (++r->file->items > ZR_PARQUET_ITEMS)
            return fail_row(r, "more than 4 Mi items of lists in a row", error);
        ZERO_TRY(item == repeated ? read_present(r, item, &value, error)
                                  : read_node(r, item, &value, error));
        if (json_array_append_new(list, value))
            return no_memory(r, error);
    } while (!column->ended && column->repeat == (uint32_t)node->repeat);
    return ZERO_OK;
}

static zero_status read_node(reader *r, int index, json_t **out, zero_error *error)
{
    const zr_parquet_node *node = &r->file->nodes[index];
    if (node->repetition == ZR_PARQUET_OPTIONAL &&
        first_column(r, index)->define < (uint32_t)node->define) {
        *out = json_null();
        return pass_entry(r, index, error);
    }
    if (node->repetition != ZR_PARQUET_REPEATED)
        return read_present(r, index, out, error);
    json_t *list = json_array();
    zero_status status = list ? read_items(r, index, index, list, error) : no_memory(r, error);
    if (status == ZERO_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}

// ---- row groups ---------------------------------------------------------------------------------

static void close_cursors(zr_parquet *file)
{
    for (int i = 0; file->cursors && i < file->columns; i++)
        zr_parquet_column_close(&file->cursors[i]);
}

static zero_status begin_group(zr_parquet *file, zero_error *error)
{
    const zr_parquet_group *group = &file->groups[file->group++];
    close_cursors(file);
    if (group->chunk_count != file->columns)
        return zr_parquet_damaged(file->path, "a row group has other columns than the schema",
                                  error);
    for (int i = 0; i < file->columns; i++) {
        const zr_parquet_node *node = &file->nodes[file->leaves[i]];
        if (node->leaf >= 0)
            ZERO_TRY(
                zr_parquet_column_open(file, node, &group->chunks[i], &file->cursors[i], error));
    }
    file->left = group->rows;
    return ZERO_OK;
}

// At the beginning of a row every column stands at an entry that continues no list; after the last
// row it stands at none.
static zero_status check_border(const reader *r, bool last, zero_error *error)
{
    for (int i = 0; i < r->file->columns; i++) {
        const zr_parquet_column *column = &r->file->cursors[i];
        if (column->node && (column->repeat || column->ended != last))
            return fail_row(r, "its columns have not the same rows: the Parquet file is damaged",
                            error);
    }
    return ZERO_OK;
}

bool zr_parquet_begins(const char *data, size_t length)
{
    return length >= 4 && !memcmp(data, "PAR1", 4);
}

zero_status zr_parquet_next(zr_parquet *file, const char *name, json_t **row, zero_error *error)
{
    reader r = {.file = file, .name = name};
    *row = NULL;
    while (!file->left && file->group < file->group_count)
        ZERO_TRY(begin_group(file, error));
    if (!file->left)
        return ZERO_OK;
    ZERO_TRY(check_border(&r, false, error));
    file->items = 0;
    file->text = 0;
    json_t *made = json_object();
    zero_status status = made ? read_fields(&r, 0, made, error) : no_memory(&r, error);
    if (status == ZERO_OK && !--file->left)
        status = check_border(&r, true, error);
    if (status == ZERO_OK)
        *row = made;
    else
        json_decref(made);
    return status;
}

zero_status zr_parquet_open(const char *path, const char *data, size_t length, zr_parquet **out,
                            zero_error *error)
{
    zr_parquet *file = zr_alloc(sizeof *file, error);
    *out = NULL;
    if (!file)
        return ZERO_ERR_MEMORY;
    file->path = path;
    file->data = (const uint8_t *)data;
    file->length = length;
    zero_status status = zr_parquet_read_footer(file, error);
    if (status == ZERO_OK)
        status = zr_parquet_read_schema(file, error);
    if (status == ZERO_OK &&
        !(file->cursors = zr_alloc((size_t)file->columns * sizeof *file->cursors, error)))
        status = ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        *out = file;
    else
        zr_parquet_close(file);
    return status;
}

void zr_parquet_close(zr_parquet *file)
{
    if (!file)
        return;
    close_cursors(file);
    for (int64_t i = 0; i < file->group_count; i++)
        zr_free(file->groups[i].chunks);
    for (int i = 0; i < file->node_count; i++)
        zr_free(file->nodes[i].name);
    zr_free(file->groups);
    zr_free(file->nodes);
    zr_free(file->leaves);
    zr_free(file->cursors);
    zr_free(file);
}

int64_t zr_parquet_rows(const zr_parquet *file) { return file->rows; }
