// A cursor in a column chunk: pages are unpacked one by one, and their entries read in order.
//
//   page, version 1   header | all of this packed: levels of repetition, of definition, values
//   page, version 2   header | levels of repetition | of definition | values, packed alone
//
// PageHeader of parquet.thrift: 1 kind, 2 unpacked bytes, 3 packed bytes, 5 data page (1 values, 2
// encoding, 3 and 4 encodings of levels), 7 dictionary page (1 values, 2 encoding), 8 data page of
// version 2 (1 values, 4 encoding, 5 and 6 bytes of the levels, 7 whether the values are packed).
#include "data/parquet_internal.h"

#include "base/alloc.h"
#include "data/parquet_codec.h"

#include <string.h>

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_2 = 3 };
// A page may have that many bytes, or be that many times as long as it is packed.
enum { MOST_PAGE = 128 << 20, MOST_TIMES = 1032 };

typedef struct page {
    int64_t kind, unpacked, packed;
    int64_t values, encoding, define_bytes, repeat_bytes;
    int64_t define_encoding, repeat_encoding;
    bool plain; // version 2: the values are not packed
    const uint8_t *data;
} page;

static zero_status fail_page(const zr_parquet_column *c, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: column \"%s\": %s: the Parquet file is damaged",
                   c->path, c->node->name, what);
}

// Fields of the header's structures that are integers: the structure's field (0: the header
// itself), the field's own number, and where its value goes.
static const struct {
    int of, id;
    size_t at;
} integers[] = {
    {0, 1, offsetof(page, kind)},
    {0, 2, offsetof(page, unpacked)},
    {0, 3, offsetof(page, packed)},
    {5, 1, offsetof(page, values)},
    {5, 2, offsetof(page, encoding)},
    {5, 3, offsetof(page, define_encoding)},
    {5, 4, offsetof(page, repeat_encoding)},
    {7, 1, offsetof(page, values)},
    {7, 2, offsetof(page, encoding)},
    {8, 1, offsetof(page, values)},
    {8, 4, offsetof(page, encoding)},
    {8, 5, offsetof(page, define_bytes)},
    {8, 6, offsetof(page, repeat_bytes)},
};

// Reads a field of structure `of`; false: it is none of these.
static bool read_integer(zr_thrift *t, const zr_thrift_field *f, int64_t of, page *p)
{
    for (int i = 0; i < ZR_COUNT(integers); i++) {
        if (integers[i].of != of || integers[i].id != f->id)
            continue;
        *(int64_t *)((char *)p + integers[i].at) = zr_thrift_integer(t, f);
        return true;
    }
    return false;
}

static void read_inner(zr_thrift *t, int64_t of, page *p)
{
    zr_thrift_field f = {0};
    while (zr_thrift_next(t, &f)) {
        if (of == 8 && f.id == 7)
            p->plain = !zr_thrift_flag(t, &f);
        else if (!read_integer(t, &f, of, p))
            zr_thrift_skip(t, &f);
    }
}

// Whether the lengths of a page whose bytes begin at `at` are possible.
static bool is_within(const page *p, const uint8_t *at, const uint8_t *end)
{
    return p->packed >= 0 && p->packed <= end - at && p->unpacked >= 0 && p->values >= 0 &&
           p->define_bytes >= 0 && p->repeat_bytes >= 0 && p->repeat_bytes <= p->packed &&
           p->define_bytes <= p->packed - p->repeat_bytes;
}

static bool read_header(zr_parquet_column *c, page *p)
{
    zr_thrift t = {.at = c->at, .end = c->end};
    zr_thrift_field f = {0};
    *p = (page){.kind = -1, .define_encoding = ZR_PARQUET_RLE, .repeat_encoding = ZR_PARQUET_RLE};
    while (zr_thrift_next(&t, &f)) {
        if (f.type == ZR_THRIFT_STRUCT && (f.id == 5 || f.id == 7 || f.id == 8))
            read_inner(&t, f.id, p);
        else if (!read_integer(&t, &f, 0, p))
            zr_thrift_skip(&t, &f);
    }
    p->data = t.at;
    if (t.failed || !is_within(p, t.at, t.end))
        return false;
    c->at = t.at + p->packed;
    return true;
}

// Gives the unpacked bytes of data[0..packed); *owned is the memory for them, or NULL where these
// are the bytes.
static zero_status unpack(const zr_parquet_column *c, const uint8_t *data, int64_t packed,
                          int64_t unpacked, bool plain, uint8_t **owned, const uint8_t **out,
                          zero_error *error)
{
    *out = data;
    if (!c->codec || plain)
        return packed == unpacked ? ZERO_OK : fail_page(c, "the length of a page", error);
    if (unpacked > MOST_PAGE && unpacked / MOST_TIMES > packed)
        return fail_page(c, "a page unpacks to too much", error);
    *owned = zr_alloc((size_t)unpacked + 1, error);
    if (!*owned)
        return ZERO_ERR_MEMORY;
    *out = *owned;
    return unpacked ? zr_parquet_unpack(c->codec, data, (size_t)packed, *owned, (size_t)unpacked,
                                        c->path, error)
                    : ZERO_OK;
}

// ---- the dictionary -----------------------------------------------------------------------------

static zero_status read_dictionary(zr_parquet_column *c, const page *p, zero_error *error)
{
    const uint8_t *data;
    if (c->dictionary || c->dictionary_page)
        return fail_page(c, "a second dictionary", error);
    ZERO_TRY(unpack(c, p->data, p->packed, p->unpacked, false, &c->dictionary_page, &data, error));
    bool plain =
        p->encoding == ZR_PARQUET_PLAIN_ENCODING || p->encoding == ZR_PARQUET_PLAIN_DICTIONARY;
    if (!plain || p->values > p->unpacked) // each has a byte at least
        return fail_page(c, "its dictionary", error);
    zr_parquet_values values = {.type = c->node->type};
    zr_parquet_values_begin(&values, ZR_PARQUET_PLAIN_ENCODING, data, data + p->unpacked);
    c->dictionary = zr_alloc((size_t)ZR_MAX(p->values, (int64_t)1) * sizeof *c->dictionary, error);
    if (!c->dictionary)
        return ZERO_ERR_MEMORY;
    for (; c->dictionary_count < p->values; c->dictionary_count++)
        if (!zr_parquet_values_next(&values, &c->dictionary[c->dictionary_count]))
            return fail_page(c, "its dictionary", error);
    return ZERO_OK;
}

// ---- pages of data ------------------------------------------------------------------------------

static int bits_of(int most)
{
    int bits = 0;
    for (; most; most >>= 1)
        bits++;
    return bits;
}

// Version 1: levels have their length before them. Moves *at to their end.
static bool take_levels(const uint8_t **at, const uint8_t *end, int most, zr_runs *out)
{
    uint32_t length;
    *out = zr_runs_of(*at, 0, 0);
    if (!most)
        return true;
    if (end - *at < (ptrdiff_t)sizeof length)
        return false;
    memcpy(&length, *at, sizeof length);
    *at += sizeof length;
    if (length > (size_t)(end - *at))
        return false;
    *out = zr_runs_of(*at, length, bits_of(most));
    *at += length;
    return true;
}

static zero_status begin_values(zr_parquet_column *c, const page *p, const uint8_t *at,
                                const uint8_t *end, zero_error *error)
{
    bool indices =
        p->encoding == ZR_PARQUET_PLAIN_DICTIONARY || p->encoding == ZR_PARQUET_RLE_DICTIONARY;
    if (indices && !c->dictionary)
        return fail_page(c, "it has no dictionary", error);
    if (!zr_parquet_values_begin(&c->values, (int)p->encoding, at, end))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: column \"%s\": its values are damaged, or their encoding (%lld) is not "
                       "built for its type",
                       c->path, c->node->name, (long long)p->encoding);
    c->page_left = p->values;
    c->values_left -= p->values;
    return ZERO_OK;
}

static zero_status begin_page_1(zr_parquet_column *c, const page *p, zero_error *error)
{
    const uint8_t *at, *end;
    if ((c->node->define && p->define_encoding != ZR_PARQUET_RLE) ||
        (c->node->repeat && p->repeat_encoding != ZR_PARQUET_RLE))
        return zr_fail(
            error, ZERO_ERR_UNSUPPORTED,
            "%s: column \"%s\": levels in an encoding of format 1 (BIT_PACKED), which is "
            "not built",
            c->path, c->node->name);
    ZERO_TRY(unpack(c, p->data, p->packed, p->unpacked, false, &c->page, &at, error));
    end = at + p->unpacked;
    if (!take_levels(&at, end, c->node->repeat, &c->repeats) ||
        !take_levels(&at, end, c->node->define, &c->defines))
        return fail_page(c, "the levels of a page", error);
    return begin_values(c, p, at, end, error);
}

static zero_status begin_page_2(zr_parquet_column *c, const page *p, zero_error *error)
{
    const uint8_t *at;
    int64_t levels = p->repeat_bytes + p->define_bytes, unpacked = p->unpacked - levels;
    if (unpacked < 0)
        return fail_page(c, "the levels of a page", error);
    c->repeats = zr_runs_of(p->data, (size_t)p->repeat_bytes, bits_of(c->node->repeat));
    c->defines =
        zr_runs_of(p->data + p->repeat_bytes, (size_t)p->define_bytes, bits_of(c->node->define));
    // A page of nulls alone may have no values, packed or not.
    bool none = p->packed == levels && !unpacked;
    ZERO_TRY(unpack(c, p->data + levels, p->packed - levels, unpacked, p->plain || none, &c->page,
                    &at, error));
    return begin_values(c, p, at, at + unpacked, error);
}

// Goes to the next page that has entries.
static zero_status next_page(zr_parquet_column *c, zero_error *error)
{
    while (!c->page_left && c->values_left) {
        page p;
        if (!read_header(c, &p))
            return fail_page(c, "the header of a page", error);
        if (p.kind == DICTIONARY_PAGE) {
            ZERO_TRY(read_dictionary(c, &p, error));
            continue;
        }
        if (p.kind != DATA_PAGE && p.kind != DATA_PAGE_2)
            continue; // an index
        if (p.values > c->values_left)
            return fail_page(c, "it has more values than it says", error);
        zr_free(c->page);
        c->page = NULL;
        ZERO_TRY(p.kind == DATA_PAGE ? begin_page_1(c, &p, error) : begin_page_2(c, &p, error));
    }
    return ZERO_OK;
}

// ---- entries ------------------------------------------------------------------------------------

static bool take_level(zr_runs *runs, int most, uint32_t *out)
{
    *out = 0;
    return !most || (zr_runs_next(runs, out) && *out <= (uint32_t)most);
}

zero_status zr_parquet_column_advance(zr_parquet_column *c, zero_error *error)
{
    ZERO_TRY(next_page(c, error));
    c->repeat = c->define = 0;
    c->ended = !c->page_left;
    if (c->ended)
        return ZERO_OK;
    c->page_left--;
    return take_level(&c->repeats, c->node->repeat, &c->repeat) &&
                   take_level(&c->defines, c->node->define, &c->define)
               ? ZERO_OK
               : fail_page(c, "the levels of a page", error);
}

zero_status zr_parquet_column_take(zr_parquet_column *c, zr_parquet_value *out, zero_error *error)
{
    bool indices = c->values.encoding == ZR_PARQUET_PLAIN_DICTIONARY ||
                   c->values.encoding == ZR_PARQUET_RLE_DICTIONARY;
    bool taken = !c->ended && zr_parquet_values_next(&c->values, out);
    if (taken && c->values.text.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a text of column \"%s\"", c->path,
                       c->node->name);
    if (taken && indices) {
        int64_t index = out->integer;
        taken = index < c->dictionary_count;
        if (taken)
            *out = c->dictionary[index];
    }
    return taken ? ZERO_OK : fail_page(c, "its values end early, or are damaged", error);
}

zero_status zr_parquet_column_open(const zr_parquet *file, const zr_parquet_node *node,
                                   const zr_parquet_chunk *chunk, zr_parquet_column *out,
                                   zero_error *error)
{
    bool first = chunk->dictionary_at > 0 && chunk->dictionary_at < chunk->data_at;
    int64_t start = first ? chunk->dictionary_at : chunk->data_at, length = (int64_t)file->length;
    *out = (zr_parquet_column){.path = file->path,
                               .node = node,
                               .codec = chunk->codec,
                               .values_left = chunk->values,
                               .values = {.type = node->type}};
    if (chunk->type != (int)node->type || start < 0 || start > length || chunk->bytes < 0 ||
        chunk->bytes > length - start || chunk->values < 0)
        return fail_page(out, "its place in the file", error);
    out->at = file->data + start;
    out->end = out->at + chunk->bytes;
    return zr_parquet_column_advance(out, error);
}

void zr_parquet_column_close(zr_parquet_column *column)
{
    zr_free(column->page);
    zr_free(column->dictionary_page);
    zr_free(column->dictionary);
    zr_parquet_values_free(&column->values);
    *column = (zr_parquet_column){0};
}
