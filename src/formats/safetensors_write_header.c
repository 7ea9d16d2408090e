// Makes the header of a new file byte for byte as the reference writer does: dtypes by falling
// alignment, then names.
#include "base/json_writer.h"
#include "formats/safetensors.h"
#include "formats/safetensors_write.h"

#include <stdlib.h>
#include <string.h>

typedef struct placed { // an entry in the order of the file
    const zr_st_entry *entry;
    const zr_st_dtype *dtype;
    char *name; // in the file
    int index;  // in the given order
} placed;

static int by_dtype_then_name(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->dtype != y->dtype)
        return x->dtype > y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void write_header_entry(const placed *place, int64_t begin, int64_t end, zr_json_writer *w)
{
    zr_json_begin_object(w, place->name);
    zr_json_text(w, "dtype", place->dtype->name);
    zr_json_integers(w, "shape", place->entry->shape, place->entry->dims);
    zr_json_integers(w, "data_offsets", (const int64_t[]){begin, end}, 2);
    zr_json_end(w);
}

// Writes the JSON after 8 bytes that are kept for its length. out->begin counts from the header's
// end until the caller moves it.
static zero_status write_header_json(const placed *order, int count, zr_st_layout *out,
                                     zero_error *error)
{
    zr_json_writer w = zr_json_writer_on(&out->header, ZR_JSON_COMPACT);
    zero_status status = ZERO_OK;
    zr_buffer_append(&out->header, "\0\0\0\0\0\0\0", 8);
    zr_json_begin_object(&w, NULL);
    zr_json_begin_object(&w, "__metadata__");
    zr_json_text(&w, "format", "pt");
    zr_json_end(&w);
    for (int i = 0; i < count && status == ZERO_OK; i++) {
        const zr_st_entry *entry = order[i].entry;
        int64_t bytes, begin = out->total;
        if (!zr_st_bytes(order[i].dtype, entry->dims, entry->shape, &bytes) ||
            __builtin_add_overflow(begin, bytes, &out->total))
            status = zr_fail(error, ZERO_ERR_USAGE, "tensor \"%s\" is too large to be written",
                             entry->name);
        else
            write_header_entry(&order[i], begin, out->total, &w);
        out->begin[order[i].index] = begin;
    }
    zr_json_end(&w);
    while (out->header.length % 8 && !out->header.failed)
        zr_buffer_append(&out->header, " ", 1);
    if (status == ZERO_OK && out->header.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the header of %d tensors", count);
    return status;
}

static zero_status finish_header(int count, zr_st_layout *out, zero_error *error)
{
    uint64_t json_bytes = out->header.length - 8;
    if (json_bytes > ZR_ST_HEADER_LIMIT)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "%d tensors need a header of %llu bytes, more than the %d that readers accept", count,
            (unsigned long long)json_bytes, ZR_ST_HEADER_LIMIT);
    memcpy(out->header.data, &json_bytes, 8);
    for (int i = 0; i < count; i++)
        out->begin[i] += (int64_t)out->header.length;
    out->total += (int64_t)out->header.length;
    return ZERO_OK;
}

static zero_status place_entries(const zr_st_entry *entries, int count, const char *prefix,
                                 placed *order, zero_error *error)
{
    for (int i = 0; i < count; i++) {
        const zr_st_entry *entry = &entries[i];
        order[i] = (placed){
            .entry = entry,
            .dtype = entry->stored ? zr_st_dtype_find(entry->stored) : zr_st_dtype_of(entry->dtype),
            .name = zr_sprintf(error, "%.*s%s", zr_tensor_prefix_bytes(entry->name, prefix), prefix,
                               entry->name),
            .index = i};
        if (!order[i].name)
            return ZERO_ERR_MEMORY;
    }
    qsort(order, (size_t)count, sizeof *order, by_dtype_then_name);
    return ZERO_OK;
}

zero_status zr_st_layout_create(const zr_st_entry *entries, int count, const char *prefix,
                                zr_st_layout *out, zero_error *error)
{
    *out = (zr_st_layout){0};
    placed *order = zr_alloc((size_t)count * sizeof *order, error);
    if (!order)
        return ZERO_ERR_MEMORY;
    out->begin = zr_alloc((size_t)count * sizeof *out->begin, error);
    zero_status status =
        out->begin ? place_entries(entries, count, prefix, order, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = write_header_json(order, count, out, error);
    if (status == ZERO_OK)
        status = finish_header(count, out, error);
    for (int i = 0; i < count; i++)
        zr_free(order[i].name);
    zr_free(order);
    if (status != ZERO_OK)
        zr_st_layout_free(out);
    return status;
}

void zr_st_layout_free(zr_st_layout *layout)
{
    zr_buffer_free(&layout->header);
    zr_free(layout->begin);
    *layout = (zr_st_layout){0};
}
