#include "tune/compare_ways.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void zr_table_row(zr_table *table)
{
    assert(table->rows < ZR_TABLE_ROWS);
    table->rows++;
    table->at = 0;
}

void zr_table_cell(zr_table *table, const char *format, ...)
{
    va_list values;
    assert(table->rows > 0 && table->at < ZR_TABLE_COLUMNS);
    va_start(values, format);
    vsnprintf(table->cells[table->rows - 1][table->at++], ZR_TABLE_CELL, format, values);
    va_end(values);
    table->columns = ZR_MAX(table->columns, table->at);
}

static int compare_table_width_of(const zr_table *table, int column)
{
    size_t width = 3; // of the rule under a heading
    for (int row = 0; row < table->rows; row++)
        width = ZR_MAX(width, strlen(table->cells[row][column]));
    return (int)width;
}

static void write_rule(const zr_table *table, zr_buffer *out)
{
    for (int column = 0; column < table->columns; column++) {
        zr_buffer_printf(out, "|-");
        for (int i = compare_table_width_of(table, column); i > 0; i--)
            zr_buffer_printf(out, "-");
        zr_buffer_printf(out, "-");
    }
    zr_buffer_printf(out, "|\n");
}

void zr_table_write(const zr_table *table, zr_buffer *out)
{
    for (int row = 0; row < table->rows; row++) {
        for (int column = 0; column < table->columns; column++)
            zr_buffer_printf(out, "| %-*s ", compare_table_width_of(table, column),
                             table->cells[row][column]);
        zr_buffer_printf(out, "|\n");
        if (row == 0)
            write_rule(table, out);
    }
}
