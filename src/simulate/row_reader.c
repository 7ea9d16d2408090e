#include "simulate/row_reader.h"

#include <stdarg.h>
#include <stdio.h>

const char *zr_sim_row_cell(const zr_sim_row_reader *r, const char *column)
{
    return zr_sim_csv_cell(r->csv, r->row, column);
}

double zr_sim_row_number(const zr_sim_row_reader *r, const char *column)
{
    return zr_sim_text_number(zr_sim_row_cell(r, column));
}

int64_t zr_sim_row_whole(const zr_sim_row_reader *r, const char *column, double most)
{
    return (int64_t)ZR_MIN(zr_sim_row_number(r, column), most);
}

int64_t zr_sim_row_length(const zr_sim_row_reader *r, const char *column, double most)
{
    return (int64_t)ZR_MIN(zr_sim_text_length(zr_sim_row_cell(r, column)), most);
}

void zr_sim_row_tell(zr_sim_row_reader *r, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    zr_buffer_printf(r->why, "%s%s", r->why->length > 0 ? "; " : "", text);
}

void zr_sim_row_set_none(int64_t *out, int64_t value)
{
    if (*out <= 0)
        *out = value;
}
