// The slots of a table of functions, under the names that its header declares. A test of the table
// takes its rows from here, so that a slot without a test fails by name.
#ifndef TESTS_TABLE_SLOTS_H
#define TESTS_TABLE_SLOTS_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

typedef void (*slot_function)(void);

enum { MOST_SLOTS = 32, SLOT_NAME_BYTES = 48 };

typedef struct table_slots {
    int count;
    char name[MOST_SLOTS][SLOT_NAME_BYTES];
} table_slots;

static inline char *read_header(const char *path)
{
    enum { BYTES = 1 << 18 };
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, BYTES);
    assert_non_null(text);
    assert_true(fread(text, 1, BYTES, file) < BYTES - 1);
    fclose(file);
    return text;
}

// Blanks comments, because they may name functions.
static inline void blank_comments(char *text)
{
    bool inside = false;
    for (; *text; text++) {
        inside = *text != '\n' && (inside || strncmp(text, "//", 2) == 0);
        if (inside)
            *text = ' ';
    }
}

// Returns the names in (*NAME)( between `typedef struct TYPE {` and its closing brace, in order.
// `bytes` is the size of the slots in memory. It must be that of one pointer per name; otherwise
// this reader and the compiler have read different things.
static inline table_slots read_slots(const char *path, const char *type, size_t bytes)
{
    table_slots slots = {0};
    char opening[96], *text = read_header(path), *at, *end;
    blank_comments(text);
    snprintf(opening, sizeof opening, "typedef struct %s {", type);
    if (!(at = strstr(text, opening)) || !(end = strchr(at, '}')))
        fail_msg("%s declares no %s", path, type);
    for (; (at = strstr(at, "(*")) && at < end; slots.count++) {
        size_t length = strcspn(at += 2, ")");
        assert_true(slots.count < MOST_SLOTS && length < SLOT_NAME_BYTES);
        memcpy(slots.name[slots.count], at, length);
    }
    if (bytes != (size_t)slots.count * sizeof(slot_function))
        fail_msg("%s of %s: %d slots read in %zu bytes", type, path, slots.count, bytes);
    free(text);
    return slots;
}

static inline slot_function slot_at(const void *first, int slot)
{
    slot_function function;
    memcpy(&function, (const char *)first + (size_t)slot * sizeof function, sizeof function);
    return function;
}

#endif
