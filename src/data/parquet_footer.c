// The footer: FileMetaData of parquet.thrift. These of its fields are read, by their numbers:
//
//   FileMetaData    2 schema, 4 row groups, 8 encryption
//   SchemaElement   1 type, 3 repetition, 4 name, 5 children, 6 converted type, 10 logical type
//   RowGroup        1 columns, 3 rows
//   ColumnChunk     1 file, 3 meta data
//   ColumnMetaData  1 type, 4 codec, 5 values, 7 bytes, 9 data page, 11 dictionary page
#include "data/parquet_internal.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

enum { TAIL = 8 }; // the footer's length, and "PAR1"

zero_status zr_parquet_damaged(const char *path, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: %s: the Parquet file is damaged", path, what);
}

bool zr_parquet_is_text(zr_thrift_text text)
{
    size_t at = 0, bytes = 1;
    for (; at < text.length && bytes && text.data[at]; at += bytes)
        bytes = zr_utf8_bytes((const unsigned char *)text.data + at, text.length - at);
    return at == text.length && bytes;
}

// ---- the schema ---------------------------------------------------------------------------------

// Older files annotate by a number, later ones (also) by a union, whose field is the annotation.
static const struct {
    int first, last;
    zr_parquet_meaning meaning;
} converted_types[] = {
    {0, 0, ZR_PARQUET_TEXT_MEANT},  // UTF8
    {1, 3, ZR_PARQUET_LIST},        // MAP, MAP_KEY_VALUE, LIST
    {4, 4, ZR_PARQUET_TEXT_MEANT},  // ENUM
    {11, 14, ZR_PARQUET_UNSIGNED},  // UINT_8 to UINT_64
    {15, 18, ZR_PARQUET_PLAIN},     // INT_8 to INT_64
    {19, 19, ZR_PARQUET_TEXT_MEANT} // JSON
};

static zr_parquet_meaning meaning_of_converted(int64_t converted)
{
    for (int i = 0; i < ZR_COUNT(converted_types); i++)
        if (converted >= converted_types[i].first && converted <= converted_types[i].last)
            return converted_types[i].meaning;
    return ZR_PARQUET_OTHER;
}

// IntType: 1 bit width, 2 is signed.
static zr_parquet_meaning read_integer_type(zr_thrift *t)
{
    zr_thrift_field f = {0};
    bool is_signed = true;
    while (zr_thrift_next(t, &f)) {
        if (f.id == 2)
            is_signed = zr_thrift_flag(t, &f);
        else
            zr_thrift_skip(t, &f);
    }
    return is_signed ? ZR_PARQUET_PLAIN : ZR_PARQUET_UNSIGNED;
}

static zr_parquet_meaning read_logical_type(zr_thrift *t)
{
    zr_thrift_field f = {0};
    zr_parquet_meaning meaning = ZR_PARQUET_OTHER;
    while (zr_thrift_next(t, &f)) {
        if (f.id == 10 && f.type == ZR_THRIFT_STRUCT) {
            meaning = read_integer_type(t);
            continue;
        }
        meaning = f.id == 1 || f.id == 4 || f.id == 12 ? ZR_PARQUET_TEXT_MEANT // and ENUM, JSON
                  : f.id == 2 || f.id == 3             ? ZR_PARQUET_LIST
                                                       : ZR_PARQUET_OTHER;
        zr_thrift_skip(t, &f);
    }
    return meaning;
}

static zero_status read_node(const char *path, zr_thrift *t, zr_parquet_node *node,
                             zero_error *error)
{
    zr_thrift_field f = {0};
    zr_thrift_text name = {"", 0};
    *node = (zr_parquet_node){.type = ZR_PARQUET_GROUP, .item = -1, .leaf = -1};
    bool logical = false;
    while (zr_thrift_next(t, &f)) {
        switch (f.id) {
        case 1: node->type = (zr_parquet_type)zr_thrift_integer(t, &f); break;
        case 3: node->repetition = (zr_parquet_repetition)zr_thrift_integer(t, &f); break;
        case 4: name = zr_thrift_binary(t, &f); break;
        case 5: node->children = zr_thrift_integer(t, &f); break;
        case 6:
            if (logical)
                zr_thrift_skip(t, &f);
            else
                node->meaning = meaning_of_converted(zr_thrift_integer(t, &f));
            break;
        case 10:
            logical = zr_thrift_struct(t, &f);
            node->meaning = read_logical_type(t);
            break;
        default: zr_thrift_skip(t, &f);
        }
    }
    if (!zr_parquet_is_text(name))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the name of a column is no text", path);
    node->name = zr_alloc(name.length + 1, error);
    if (!node->name)
        return ZERO_ERR_MEMORY;
    memcpy(node->name, name.data, name.length);
    return ZERO_OK;
}

static zero_status read_nodes(zr_parquet *file, zr_thrift *t, const zr_thrift_field *f,
                              zero_error *error)
{
    int64_t count = zr_thrift_list(t, f, ZR_THRIFT_STRUCT);
    if (file->nodes || count < 2 || count > ZR_PARQUET_NODES)
        return zr_parquet_damaged(file->path, "its schema has no column, or far too many", error);
    file->nodes = zr_alloc((size_t)count * sizeof *file->nodes, error);
    if (!file->nodes)
        return ZERO_ERR_MEMORY;
    while (file->node_count < count)
        ZERO_TRY(read_node(file->path, t, &file->nodes[file->node_count++], error));
    return ZERO_OK;
}

// ---- row groups ---------------------------------------------------------------------------------

static void read_meta_data(zr_thrift *t, zr_parquet_chunk *chunk)
{
    zr_thrift_field f = {0};
    while (zr_thrift_next(t, &f)) {
        switch (f.id) {
        case 1: chunk->type = (int)zr_thrift_integer(t, &f); break;
        case 4: chunk->codec = (int)zr_thrift_integer(t, &f); break;
        case 5: chunk->values = zr_thrift_integer(t, &f); break;
        case 7: chunk->bytes = zr_thrift_integer(t, &f); break;
        case 9: chunk->data_at = zr_thrift_integer(t, &f); break;
        case 11: chunk->dictionary_at = zr_thrift_integer(t, &f); break;
        default: zr_thrift_skip(t, &f);
        }
    }
}

static zero_status read_chunk(zr_parquet *file, zr_thrift *t, zr_parquet_chunk *chunk,
                              zero_error *error)
{
    zr_thrift_field f = {0};
    *chunk = (zr_parquet_chunk){.type = -1};
    while (zr_thrift_next(t, &f)) {
        if (f.id == 1 && zr_thrift_binary(t, &f).length)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s: a column lies in another file, which is not built", file->path);
        if (f.id == 3 && zr_thrift_struct(t, &f))
            read_meta_data(t, chunk);
        else if (f.id != 1)
            zr_thrift_skip(t, &f);
    }
    return ZERO_OK;
}

static zero_status read_chunks(zr_parquet *file, zr_thrift *t, const zr_thrift_field *f,
                               zr_parquet_group *group, zero_error *error)
{
    int64_t count = zr_thrift_list(t, f, ZR_THRIFT_STRUCT);
    if (group->chunks || count > ZR_PARQUET_NODES)
        return zr_parquet_damaged(file->path, "a row group has too many columns", error);
    group->chunks = zr_alloc((size_t)ZR_MAX(count, (int64_t)1) * sizeof *group->chunks, error);
    if (!group->chunks)
        return ZERO_ERR_MEMORY;
    for (; group->chunk_count < count; group->chunk_count++)
        ZERO_TRY(read_chunk(file, t, &group->chunks[group->chunk_count], error));
    return ZERO_OK;
}

static zero_status read_group(zr_parquet *file, zr_thrift *t, zr_parquet_group *group,
                              zero_error *error)
{
    zr_thrift_field f = {0};
    while (zr_thrift_next(t, &f)) {
        if (f.id == 1)
            ZERO_TRY(read_chunks(file, t, &f, group, error));
        else if (f.id == 3)
            group->rows = zr_thrift_integer(t, &f);
        else
            zr_thrift_skip(t, &f);
    }
    if (group->rows < 0 || __builtin_add_overflow(file->rows, group->rows, &file->rows))
        return zr_parquet_damaged(file->path, "its rows have no number", error);
    return ZERO_OK;
}

static zero_status read_groups(zr_parquet *file, zr_thrift *t, const zr_thrift_field *f,
                               zero_error *error)
{
    int64_t count = zr_thrift_list(t, f, ZR_THRIFT_STRUCT);
    if (file->groups)
        return zr_parquet_damaged(file->path, "its row groups are listed twice", error);
    file->groups = zr_alloc((size_t)ZR_MAX(count, (int64_t)1) * sizeof *file->groups, error);
    if (!file->groups)
        return ZERO_ERR_MEMORY;
    while (file->group_count < count)
        ZERO_TRY(read_group(file, t, &file->groups[file->group_count++], error));
    return ZERO_OK;
}

// ---- the whole footer ---------------------------------------------------------------------------

static zero_status find_footer(const zr_parquet *file, zr_thrift *out, zero_error *error)
{
    const uint8_t *tail = file->data + file->length - TAIL;
    if (file->length < 4 + TAIL || memcmp(tail + 4, "PAR1", 4))
        return zr_parquet_damaged(file->path, "it does not end as it begins (cut off?)", error);
    uint32_t length;
    memcpy(&length, tail, sizeof length); // little-endian, as this machine is
    if (length > file->length - 4 - TAIL)
        return zr_parquet_damaged(file->path, "its footer is longer than the file", error);
    *out = (zr_thrift){.at = tail - length, .end = tail};
    return ZERO_OK;
}

zero_status zr_parquet_read_footer(zr_parquet *file, zero_error *error)
{
    zr_thrift t;
    zr_thrift_field f = {0};
    ZERO_TRY(find_footer(file, &t, error));
    while (zr_thrift_next(&t, &f)) {
        if (f.id == 2)
            ZERO_TRY(read_nodes(file, &t, &f, error));
        else if (f.id == 4)
            ZERO_TRY(read_groups(file, &t, &f, error));
        else if (f.id == 8)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: encrypted columns are not built",
                           file->path);
        else
            zr_thrift_skip(&t, &f);
    }
    return t.failed || !file->nodes ? zr_parquet_damaged(file->path, "its footer", error) : ZERO_OK;
}
