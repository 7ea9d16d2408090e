// zero_prompts_read: reads the lines of a text, or a field of JSONL records.
#include "base/file.h"
#include "data/data_source.h"
#include "data/text.h"
#include "data/unpack.h"
#include "data/jsonl_records.h"
#include <zero/generate.h>

#include <string.h>

#define MOST_BYTES ((size_t)1 << 30)

// Appends a prompt. The room doubles whenever the count reaches a power of two, because
// zero_prompts has no field for a capacity.
static zero_status append_prompt(zero_prompts *out, const char *text, size_t length,
                                 zero_error *error)
{
    if ((out->count & (out->count - 1)) == 0) {
        char **larger =
            zr_realloc(out->at, (size_t)ZR_MAX(1, 2 * out->count) * sizeof *larger, error);
        if (!larger)
            return ZERO_ERR_MEMORY;
        out->at = larger;
    }
    char *copy = zr_alloc(length + 1, error);
    if (!copy)
        return ZERO_ERR_MEMORY;
    memcpy(copy, text, length);
    out->at[out->count++] = copy;
    return ZERO_OK;
}

static bool is_blank_line(const char *line, size_t width)
{
    size_t at = 0;
    while (at < width && (line[at] == ' ' || line[at] == '\t'))
        at++;
    return at == width;
}

static zero_status read_lines(const char *path, const char *text, size_t length, zero_prompts *out,
                              zero_error *error)
{
    int64_t line = 1;
    for (size_t at = 0, next; at < length; at = next, line++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t width = end ? (size_t)(end - text) - at : length - at;
        next = at + width + 1;
        if (memchr(text + at, '\0', width))
            return zr_fail(error, ZERO_ERR_DATA, "%s:%lld: a zero byte, where a prompt is text",
                           path, (long long)line);
        width -= width && text[at + width - 1] == '\r';
        if (!is_blank_line(text + at, width))
            ZERO_TRY(append_prompt(out, text + at, width, error));
    }
    return ZERO_OK;
}

static zero_status append_records(zr_records *records, zero_prompts *out, zero_error *error)
{
    zr_text_record record = {0};
    bool more = true;
    zero_status status = ZERO_OK;
    while (status == ZERO_OK &&
           (status = zr_records_next(records, &record, &more, error)) == ZERO_OK && more) {
        const zr_buffer *prompt = &record.document.text;
        status = prompt->failed
                     ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for it", record.name)
                     : append_prompt(out, prompt->data, prompt->length, error);
    }
    zr_text_record_free(&record);
    return status;
}

static zero_status read_records(const char *path, const char *field, const char *text,
                                size_t length, zero_prompts *out, zero_error *error)
{
    zr_records records;
    zr_record_map map;
    ZERO_TRY(zr_record_map_parse(field ? field : "prompt", &map, error));
    zero_status status = map.shape->kind == ZR_RECORD_TEXT
                             ? zr_records_open(path, text, length, &records, error)
                             : zr_fail(error, ZERO_ERR_USAGE,
                                       "--field %s: a prompt is one field of a record", field);
    if (status == ZERO_OK) {
        records.map = &map;
        status = append_records(&records, out, error);
        zr_records_close(&records);
    }
    zr_record_map_free(&map);
    return status;
}

// Where "text:" was written the bytes are taken as they are.
static zero_status read_plain_text(const zr_data_source *source, const char *path, const char *text,
                                   size_t length, zero_prompts *out, zero_error *error)
{
    size_t at = 0;
    if (source->named)
        return read_lines(path, text, length, out, error);
    ZERO_TRY(zr_text_check_name(path, error));
    ZERO_TRY(zr_text_check_kind(path, "text", text, length, error));
    ZERO_TRY(read_lines(path, text, length, out, error));
    return zr_text_check_bytes(path, text, length, length, &at, error);
}

static zero_status read_prompts_of_text(const zr_data_source *source, const char *path,
                                        const char *field, const char *text, size_t length,
                                        zero_prompts *out, zero_error *error)
{
    if (zr_data_source_kind_of(source, path) != ZR_DATA_JSONL)
        return read_plain_text(source, path, text, length, out, error);
    if (!zr_parquet_begins(text, length))
        ZERO_TRY(zr_text_check_kind(path, "JSON", text, length, error));
    return read_records(path, field, text, length, out, error);
}

static zero_status read_prompts_of_file(const zr_data_source *source, const char *path,
                                        const char *field, zero_prompts *out, zero_error *error)
{
    char *text;
    size_t length;
    zr_mapped_file unpacked;
    ZERO_TRY(zr_file_read_stream(path, MOST_BYTES, &text, &length, error));
    const zr_mapped_file packed = {.data = text, .length = length};
    zero_status status = zr_unpack(path, &packed, NULL, &unpacked, error);
    if (status == ZERO_OK)
        status = unpacked.data
                     ? read_prompts_of_text(source, path, field, unpacked.data, unpacked.length,
                                            out, error)
                     : read_prompts_of_text(source, path, field, text, length, out, error);
    zr_file_unmap(&unpacked);
    zr_free(text);
    if (status == ZERO_OK && !out->count)
        status = zr_fail(error, ZERO_ERR_DATA, "%s: no prompt in it", path);
    return status;
}

zero_status zero_prompts_read(const char *path, const char *field, zero_prompts *out,
                              zero_error *error)
{
    ZR_NEED(error, path);
    ZR_NEED(error, out);
    zr_data_source source;
    *out = (zero_prompts){0};
    ZERO_TRY(zr_data_source_parse(path, &source, error));
    zero_status status = ZERO_OK;
    for (int i = 0; i < source.path_count && status == ZERO_OK; i++)
        status = read_prompts_of_file(&source, source.paths[i], field, out, error);
    zr_data_source_free(&source);
    if (status != ZERO_OK)
        zero_prompts_free(out);
    return status;
}

void zero_prompts_free(zero_prompts *prompts)
{
    if (!prompts)
        return;
    for (int64_t i = 0; i < prompts->count; i++)
        zr_free(prompts->at[i]);
    zr_free(prompts->at);
    *prompts = (zero_prompts){0};
}
