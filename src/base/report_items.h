// What a report is made of, for the files that write it.
#ifndef ZR_BASE_REPORT_ITEMS_H
#define ZR_BASE_REPORT_ITEMS_H

#include "base/report.h"

typedef enum zr_item_kind {
    ZR_ITEM_OBJECT,
    ZR_ITEM_LIST,
    ZR_ITEM_END,
    ZR_ITEM_FIELD,
    ZR_ITEM_PHRASE,
    ZR_ITEM_LABEL, // of the sentence whose words and phrases follow
    ZR_ITEM_LINE,
    ZR_ITEM_WORDS,
    ZR_ITEM_TABLE,
    ZR_ITEM_ROW,
    ZR_ITEM_CELL,
    ZR_ITEM_TABLE_END,
    ZR_ITEM_LABELS,
    ZR_ITEM_INDENT,
} zr_item_kind;

typedef struct zr_item {
    zr_item_kind kind;
    int count;        // TABLE: columns; LABELS, INDENT: spaces
    zr_heading field; // FIELD, PHRASE; OBJECT, LIST, TABLE: its key; LABEL, LINE: the label
    zr_value value;   // FIELD, PHRASE, CELL, LINE, WORDS
    const zr_heading *columns; // TABLE
} zr_item;

struct zr_report {
    zr_item *items;
    int count, capacity;
    int open;        // objects, lists and tables that have not ended
    int columns, at; // of the table that is open: its columns, the next cell; columns 0: no table
    zero_status failed;
    char **strings; // copies
    int string_count, string_capacity;
};

// Notes that the report was built wrongly, unless `holds`.
void zr_report_require(zr_report *r, bool holds);
void zr_report_add(zr_report *r, zr_item what);

// report_text.c and report_json.c: append the items as text or Markdown, or as JSON.
void zr_report_write_text(const zr_report *r, zr_report_kind kind, int width, zr_buffer *out);
void zr_report_write_json(const zr_report *r, zr_buffer *out);

#endif
