// Writes a report for people: as text, whose tables fit the terminal, or as Markdown.
#include "base/text.h"
#include "base/report_items.h"

#include <string.h>

static void write_real(const zr_heading *field, double value, zr_buffer *out)
{
    char text[ZR_MAX(ZR_BYTES_TEXT, ZR_SECONDS_TEXT)];
    value /= field->scale > 0 ? field->scale : 1;
    switch (field->unit) {
    case ZR_UNIT_BYTES: zr_bytes_text(value, text); break;
    case ZR_UNIT_SECONDS: zr_seconds_text(value, text); break;
    case ZR_UNIT_SHARE: zr_buffer_printf(out, "%.*f%%", field->decimals, 100 * value); return;
    case ZR_UNIT_MILLIONS: zr_buffer_printf(out, "%.*f M", field->decimals, value / 1e6); return;
    case ZR_UNIT_DIGITS: zr_buffer_printf(out, "%.*g", field->decimals, value); return;
    default: zr_buffer_printf(out, "%.*f", field->decimals, value); return;
    }
    zr_buffer_printf(out, "%s", text);
}

static void write_grouped(int64_t number, zr_buffer *out)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    for (int i = 0; i < length; i++) {
        bool group = i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-';
        zr_buffer_printf(out, group ? ",%c" : "%c", digits[i]);
    }
}

static void write_plain(const char *text, zr_buffer *out)
{
    size_t size = 4 * strlen(text) + 1;
    char *plain = zr_alloc(size, NULL);
    if (plain)
        zr_buffer_append(out, plain, zr_plain_text(text, plain, size));
    out->failed |= !plain;
    zr_free(plain);
}

// Appends a value as people read it.
static void write_value(const zr_heading *field, const zr_value *value, zr_buffer *out)
{
    switch (value->kind) {
    case ZR_VALUE_NONE: zr_buffer_printf(out, "-"); break;
    case ZR_VALUE_INTEGER:
        if (field->unit == ZR_UNIT_NONE && !(field->scale > 0))
            zr_buffer_printf(out, "%lld", (long long)value->integer);
        else if (field->unit == ZR_UNIT_GROUPED)
            write_grouped(value->integer, out);
        else
            write_real(field, (double)value->integer, out);
        break;
    case ZR_VALUE_REAL: write_real(field, value->real, out); break;
    case ZR_VALUE_FLAG: zr_buffer_printf(out, value->integer ? "yes" : "no"); break;
    case ZR_VALUE_TEXT:
    case ZR_VALUE_JSON: write_plain(value->text ? value->text : "", out); break;
    case ZR_VALUE_VERBATIM: zr_buffer_append(out, value->text, value->length); break;
    default: break;
    }
}

// Returns the columns that text takes on a terminal: the characters of UTF-8.
static int count_columns(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

// Appends text, padded to a width.
static void append_padded(const char *text, int width, bool left, zr_buffer *out)
{
    int spaces = ZR_MAX(width - count_columns(text), 0);
    zr_buffer_printf(out, "%*s%s%*s", left ? 0 : spaces, "", text, left ? spaces : 0, "");
}

static void write_line(const char *label, int width, const char *text, zr_report_kind kind,
                       zr_buffer *out)
{
    if (kind == ZR_REPORT_MARKDOWN)
        zr_buffer_printf(out, "- %s: ", label ? label : "");
    else if (label)
        append_padded(label, width, true, out);
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        zr_buffer_printf(out, "%.*s\n%*s", (int)(end - text), text, width, "");
    zr_buffer_printf(out, "%s\n", text);
}

// A table that is being written for people: its cells as text, (rows + 1, columns) with the
// heading, and the widths of columns.
typedef struct grid {
    const zr_item *table;
    int rows, columns;
    char **cells;
    int *widths;
    bool failed;
} grid;

static void fill_grid(grid *g)
{
    int row = 0, column = 0;
    for (const zr_item *i = g->table + 1; i->kind != ZR_ITEM_TABLE_END; i++) {
        if (i->kind == ZR_ITEM_ROW) {
            row++;
            column = 0;
        }
        if (i->kind != ZR_ITEM_CELL)
            continue;
        zr_buffer text = {0};
        zr_buffer_printf(&text, "%s", "");
        write_value(&g->table->columns[column], &i->value, &text);
        g->failed |= text.failed;
        g->cells[row * g->columns + column++] = text.data;
    }
    for (column = 0; column < g->columns; column++) {
        const char *label = g->table->columns[column].label;
        g->cells[column] = zr_strdup(label ? label : "", NULL);
        g->failed |= !g->cells[column];
    }
}

static void measure_grid(grid *g)
{
    for (int column = 0; column < g->columns; column++) {
        g->widths[column] = g->table->columns[column].width;
        for (int row = 0; row <= g->rows; row++) {
            const char *text = g->cells[row * g->columns + column];
            g->widths[column] = ZR_MAX(g->widths[column], text ? count_columns(text) : 0);
        }
    }
}

static bool is_shown(const grid *g, int column) { return g->table->columns[column].label; }

// Writes one row of a block: the first column and columns [from, to).
static void write_row(const grid *g, int row, int from, int to, int indent, zr_buffer *out)
{
    const char *before = "";
    zr_buffer_printf(out, "%*s", indent, "");
    for (int column = 0; column < to; column++) {
        if (!is_shown(g, column) || (column > 0 && column < from))
            continue;
        const char *text = g->cells[row * g->columns + column];
        zr_buffer_printf(out, "%s", before);
        append_padded(text ? text : "", g->widths[column], g->table->columns[column].left, out);
        before = "  ";
    }
    while (out->length && !out->failed && out->data[out->length - 1] == ' ')
        out->data[--out->length] = 0;
    zr_buffer_printf(out, "\n");
}

// Returns the end of the block that begins with column `from` and fits into `width`; at least one
// column more than the first.
static int block_end(const grid *g, int from, int indent, int width)
{
    int used = indent + g->widths[0], column = from;
    for (; column < g->columns; column++) {
        used += is_shown(g, column) ? 2 + g->widths[column] : 0;
        if (width > 0 && used > width && column > from)
            break;
    }
    return column;
}

static void write_grid(const grid *g, int indent, int width, zr_buffer *out)
{
    int from = 1;
    do {
        int to = block_end(g, from, indent, width);
        if (from > 1)
            zr_buffer_printf(out, "\n");
        for (int row = 0; row <= g->rows; row++)
            write_row(g, row, from, to, indent, out);
        from = to;
    } while (from < g->columns);
}

static void write_markdown(const grid *g, zr_buffer *out)
{
    for (int row = 0; row <= g->rows; row++) {
        for (int column = 0; column < g->columns; column++) {
            const char *text = g->cells[row * g->columns + column];
            if (!is_shown(g, column))
                continue;
            zr_buffer_printf(out, "| ");
            append_padded(text ? text : "", ZR_MAX(g->widths[column], 3), true, out);
            zr_buffer_printf(out, " ");
        }
        zr_buffer_printf(out, "|\n");
        for (int column = 0; row == 0 && column < g->columns; column++) {
            if (!is_shown(g, column))
                continue;
            zr_buffer_printf(out, "|-");
            for (int i = ZR_MAX(g->widths[column], 3); i > 0; i--)
                zr_buffer_printf(out, "-");
            zr_buffer_printf(out, "-");
        }
        if (row == 0)
            zr_buffer_printf(out, "|\n");
    }
}

// Writes a table for people. Returns the item that ends it.
static const zr_item *write_table(const zr_item *table, zr_report_kind kind, int indent, int width,
                                  zr_buffer *out)
{
    grid g = {.table = table, .columns = table->count};
    const zr_item *end = table;
    for (; end->kind != ZR_ITEM_TABLE_END; end++)
        g.rows += end->kind == ZR_ITEM_ROW;
    size_t cells = (size_t)(g.rows + 1) * (size_t)g.columns;
    g.cells = zr_alloc(cells * sizeof *g.cells, NULL);
    g.widths = zr_alloc((size_t)g.columns * sizeof *g.widths, NULL);
    g.failed = !g.cells || !g.widths;
    if (!g.failed) {
        fill_grid(&g);
        measure_grid(&g);
        if (kind == ZR_REPORT_MARKDOWN)
            write_markdown(&g, out);
        else
            write_grid(&g, indent, width, out);
    }
    out->failed |= g.failed;
    for (size_t i = 0; g.cells && i < cells; i++)
        zr_free(g.cells[i]);
    zr_free(g.cells);
    zr_free(g.widths);
    return end;
}

static void write_phrase(const zr_item *phrase, zr_buffer *out)
{
    zr_buffer text = {0};
    int width = phrase->field.width;
    zr_buffer_printf(out, "%s", phrase->field.label);
    write_value(&phrase->field, &phrase->value, width ? &text : out);
    if (width)
        append_padded(text.length ? text.data : "", width, phrase->field.left, out);
    out->failed |= text.failed;
    zr_buffer_free(&text);
}

void zr_report_write_text(const zr_report *r, zr_report_kind kind, int width, zr_buffer *out)
{
    int labels = 0, indent = 0;
    for (const zr_item *i = r->items; i < r->items + r->count; i++) {
        if (i->kind == ZR_ITEM_LABELS)
            labels = i->count;
        if (i->kind == ZR_ITEM_INDENT)
            indent = i->count;
        if (i->kind == ZR_ITEM_TABLE)
            i = write_table(i, kind, indent, width, out);
        if (i->kind == ZR_ITEM_WORDS)
            zr_buffer_printf(out, "%s", i->value.text);
        if (i->kind == ZR_ITEM_LINE)
            write_line(i->field.label, labels, i->value.text, kind, out);
        if (i->kind == ZR_ITEM_LABEL && kind == ZR_REPORT_MARKDOWN)
            zr_buffer_printf(out, "- %s: ", i->field.label);
        else if (i->kind == ZR_ITEM_LABEL)
            append_padded(i->field.label, labels, true, out);
        if (i->kind == ZR_ITEM_PHRASE && i->field.label)
            write_phrase(i, out);
        if (i->kind == ZR_ITEM_FIELD && i->field.label) {
            zr_buffer text = {0};
            zr_buffer_printf(&text, "%s", "");
            write_value(&i->field, &i->value, &text);
            write_line(i->field.label, labels, text.failed ? "" : text.data, kind, out);
            out->failed |= text.failed;
            zr_buffer_free(&text);
        }
    }
}
