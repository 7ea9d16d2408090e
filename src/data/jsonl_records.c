#include "data/jsonl_records.h"

#include <stdio.h>
#include <string.h>

zr_records zr_records_of(const char *path, const char *text, size_t length)
{
    return (zr_records){.path = path, .split = {.text = text, .length = length}};
}

zero_status zr_records_open(const char *path, const char *content, size_t length, zr_records *out,
                            zero_error *error)
{
    *out = zr_records_of(path, content, length);
    return zr_parquet_begins(content, length)
               ? zr_parquet_open(path, content, length, &out->rows, error)
               : ZERO_OK;
}

void zr_records_close(zr_records *records)
{
    zr_parquet_close(records->rows);
    records->rows = NULL;
}

void zr_text_record_free(zr_text_record *record)
{
    zr_document_free(&record->document);
    zr_document_free(&record->rejected);
}

int64_t zr_records_skip(zr_records *r, size_t bytes)
{
    if (r->rows) {
        int64_t rows = r->split.at < r->split.length ? zr_parquet_rows(r->rows) : 0;
        r->split.at = r->split.length;
        return rows;
    }
    zr_record_split *split = &r->split;
    zr_record_span span;
    size_t end = bytes < split->length - split->at ? split->at + bytes : split->length;
    int64_t count = 0;
    while (split->at < end && zr_record_split_next(split, &span))
        count++;
    return count;
}

// Corrects the place in an error of the parser, which counts from the record's beginning.
static zero_status place_error(const zr_records *r, const zr_record_span *span, zero_status status,
                               zero_error *error)
{
    size_t width = strlen(r->path);
    int line, column, words = 0;
    if (!error || strncmp(error->message, r->path, width) ||
        sscanf(error->message + width, ":%d:%d:%n", &line, &column, &words) != 2 || !words)
        return status;
    const char *text = r->split.text;
    size_t start = span->start;
    while (line == 1 && start && text[start - 1] != '\n')
        start--;
    if (line == 1)
        column += zr_json_position_of(text + start, span->start - start).column - 1;
    zero_error moved = {.status = status};
    snprintf(moved.message, sizeof moved.message, "%.*s:%lld:%d:%s", (int)width, r->path,
             (long long)(span->line + line - 1), column, error->message + width + words);
    *error = moved;
    return status;
}

static zero_status read_object(zr_records *r, const json_t *object, zr_text_record *out,
                               zero_error *error)
{
    const zr_record_reading reading = {
        .map = r->map, .chat = r->chat, .name = out->name, .preferences = r->preferences};
    zr_record_made made = {.ends = false};
    if (!json_is_object(object))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the record is %s, where an object is needed",
                       out->name, zr_record_type_name(object));
    if (r->classifies)
        ZERO_TRY(zr_record_classified(&reading, object, &out->document, &out->label, error));
    else if (r->preferences)
        ZERO_TRY(
            zr_record_preference(&reading, object, &out->document, &out->rejected, &made, error));
    else
        ZERO_TRY(zr_record_document(&reading, object, &out->document, &made, error));
    out->ends = made.ends;
    out->pair = made.pair;
    out->unwanted = made.unwanted;
    r->plain += made.plain;
    return ZERO_OK;
}

static zero_status read_span(zr_records *r, const zr_record_span *span, zr_text_record *out,
                             zero_error *error)
{
    json_t *object = NULL;
    size_t length = span->end - span->start;
    snprintf(out->name, sizeof out->name, "%s:%lld", r->path, (long long)span->line);
    if (span->fault)
        return zr_fail(error, ZERO_ERR_DATA, "%s: %s", out->name, span->fault);
    if (length > ZR_RECORD_BYTES)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a record of %zu bytes, more than the %zu that one may have", out->name,
                       length, ZR_RECORD_BYTES);
    zero_status status =
        zr_json_parse(r->split.text + span->start, length, r->path, &object, error);
    if (status != ZERO_OK)
        return place_error(r, span, status, error);
    status = read_object(r, object, out, error);
    json_decref(object);
    return status;
}

// Reads a row of Parquet; `split.at` follows, for those who show how far this is.
static zero_status read_row(zr_records *r, zr_text_record *out, bool *more, zero_error *error)
{
    json_t *row;
    snprintf(out->name, sizeof out->name, "%s: row %lld", r->path, (long long)r->seen + 1);
    ZERO_TRY(zr_parquet_next(r->rows, out->name, &row, error));
    *more = row != NULL;
    r->split.at = r->split.length;
    if (!row)
        return ZERO_OK;
    r->line = ++r->seen;
    r->split.at =
        (size_t)((double)r->split.length * ((double)r->seen / (double)zr_parquet_rows(r->rows)));
    zero_status status = read_object(r, row, out, error);
    json_decref(row);
    return status;
}

static zero_status read_next(zr_records *r, zr_text_record *out, bool *more, zero_error *error)
{
    zr_record_span span;
    zr_document_clear(&out->document);
    zr_document_clear(&out->rejected);
    if (r->rows)
        return read_row(r, out, more, error);
    *more = zr_record_split_next(&r->split, &span);
    if (!*more)
        return ZERO_OK;
    r->line = span.line;
    r->seen++;
    return read_span(r, &span, out, error);
}

zero_status zr_records_next(zr_records *r, zr_text_record *out, bool *more, zero_error *error)
{
    for (;;) {
        ZERO_TRY(read_next(r, out, more, error));
        if (!*more)
            return ZERO_OK;
        if (out->document.text.length || out->document.text.failed)
            return ZERO_OK;
        r->empty++;
    }
    return ZERO_OK;
}
