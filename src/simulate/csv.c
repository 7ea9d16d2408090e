#include "simulate/csv.h"

#include "base/file.h"

#include <string.h>
#include <strings.h>

// Tables are at most this large.
#define LIMIT ((size_t)256 << 20)

typedef struct csv_reader {
    char *at, *to; // what is read next, and where the next letter of a cell goes
    int line;
    int cells, capacity, line_capacity;
    zr_sim_csv *out;
    zero_error *error;
} csv_reader;

static zero_status take_cell(csv_reader *r, char *cell)
{
    char **grown = zr_list_grow(r->out->cells, r->cells, &r->capacity, sizeof(char *), r->error);
    if (grown == NULL)
        return ZERO_ERR_MEMORY;
    r->out->cells = grown;
    r->out->cells[r->cells++] = cell;
    return ZERO_OK;
}

// Reads a cell, and moves past its end but not past the comma or the end of the line.
static zero_status read_cell(csv_reader *r)
{
    char *cell = r->to;
    bool quoted = *r->at == '"';
    if (quoted)
        r->at++;
    while (*r->at != 0) {
        if (quoted && r->at[0] == '"' && r->at[1] == '"') {
            r->at++;
        } else if (quoted && *r->at == '"') {
            r->at++;
            quoted = false;
            continue;
        } else if (!quoted && (*r->at == ',' || *r->at == '\n' || *r->at == '\r')) {
            break;
        }
        r->line += *r->at == '\n';
        *r->to++ = *r->at++;
    }
    return take_cell(r, cell);
}

// Reads the cells of a line. Returns how many.
static zero_status read_line(csv_reader *r, int *count)
{
    int before = r->cells;
    for (;;) {
        ZERO_TRY(read_cell(r));
        char end = *r->at;
        if (end != 0)
            r->at++;
        *r->to++ = 0;
        if (end == ',')
            continue;
        if (end == '\r' && *r->at == '\n')
            r->at++;
        r->line++;
        *count = r->cells - before;
        return ZERO_OK;
    }
}

static zero_status take_row(csv_reader *r, const char *path, int line, int count)
{
    zr_sim_csv *csv = r->out;
    if (csv->columns == 0) {
        csv->columns = count;
        return ZERO_OK;
    }
    if (count == 1 && csv->columns > 1 && r->out->cells[r->cells - 1][0] == 0) {
        r->cells--; // an empty line
        return ZERO_OK;
    }
    if (count > csv->columns)
        return zr_fail(r->error, ZERO_ERR_DATA,
                       "%s, line %d: %d cells, where the first line names %d columns; a cell with "
                       "a comma needs quotes",
                       path, line, count, csv->columns);
    if (count < csv->columns)
        return zr_fail(r->error, ZERO_ERR_DATA,
                       "%s, line %d: %d cells, where the first line names "
                       "%d columns; the first that lacks one is \"%s\"",
                       path, line, count, csv->columns, csv->cells[count]);
    int *lines = zr_list_grow(csv->lines, csv->rows, &r->line_capacity, sizeof(int), r->error);
    if (lines == NULL)
        return ZERO_ERR_MEMORY;
    csv->lines = lines;
    csv->lines[csv->rows++] = line;
    return ZERO_OK;
}

zero_status zr_sim_csv_read(const char *path, zr_sim_csv *out, zero_error *error)
{
    *out = (zr_sim_csv){0};
    size_t length = 0;
    char *file = NULL;
    ZERO_TRY(zr_file_read_stream(path, LIMIT, &file, &length, error));
    // A cell at the very end of the file needs room for its own 0.
    out->text = zr_realloc(file, length + 2, error);
    if (out->text == NULL) {
        zr_free(file);
        return ZERO_ERR_MEMORY;
    }
    out->text[length] = 0;
    if (memchr(out->text, 0, length) != NULL)
        return zr_fail(error, ZERO_ERR_DATA, "%s has bytes that are 0: it is no table", path);
    csv_reader r = {.at = out->text, .to = out->text, .line = 1, .out = out, .error = error};
    if (length >= 3 && memcmp(r.at, "\xef\xbb\xbf", 3) == 0)
        r.at += 3;
    while (*r.at != 0) {
        int line = r.line, count = 0;
        ZERO_TRY(read_line(&r, &count));
        ZERO_TRY(take_row(&r, path, line, count));
    }
    if (out->columns == 0)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s is empty, where a table begins with the names of "
                       "its columns",
                       path);
    return ZERO_OK;
}

void zr_sim_csv_free(zr_sim_csv *csv)
{
    zr_free(csv->text);
    zr_free(csv->cells);
    zr_free(csv->lines);
    *csv = (zr_sim_csv){0};
}

static int find_column(const zr_sim_csv *csv, const char *column)
{
    for (int i = 0; i < csv->columns; i++)
        if (strcasecmp(csv->cells[i], column) == 0)
            return i;
    return -1;
}

bool zr_sim_csv_has(const zr_sim_csv *csv, const char *column)
{
    return find_column(csv, column) >= 0;
}

const char *zr_sim_csv_cell(const zr_sim_csv *csv, int row, const char *column)
{
    int at = find_column(csv, column);
    return at < 0 ? "" : csv->cells[(size_t)(row + 1) * (size_t)csv->columns + (size_t)at];
}
