#include "base/labels.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 12, NUMBER_BYTES = 24, MORE_BYTES = sizeof " and 1024 more" };

static const char *next_name(const char *name) { return name + strlen(name) + 1; }

const char *zr_labels_name(const zr_labels *labels, int number)
{
    const char *name = labels->text;
    for (int i = 0; i < number; i++)
        name = next_name(name);
    return name;
}

static int find_name(const zr_labels *labels, const char *label)
{
    const char *name = labels->text;
    for (int i = 0; i < labels->count; i++, name = next_name(name))
        if (!strcmp(name, label))
            return i;
    return -1;
}

// Returns whether the text is a whole number as labels have it: "-1", "12".
static bool read_number(const char *text, long long *out)
{
    char again[NUMBER_BYTES];
    errno = 0;
    *out = strtoll(text, NULL, 10);
    snprintf(again, sizeof again, "%lld", *out);
    return !errno && !strcmp(again, text);
}

static bool has_number(const zr_labels *labels)
{
    const char *name = labels->text;
    long long number;
    for (int i = 0; i < labels->count; i++, name = next_name(name))
        if (read_number(name, &number))
            return true;
    return false;
}

int zr_labels_find(const zr_labels *labels, const char *label, bool whole_number)
{
    long long number;
    int found = find_name(labels, label);
    if (found < 0 && whole_number && read_number(label, &number) && number >= 0 &&
        number < labels->count && !has_number(labels))
        found = (int)number;
    return found;
}

zero_status zr_labels_add(zr_labels *labels, const char *label, const char *name, zero_error *error)
{
    size_t bytes = strlen(label) + 1;
    if (!*label)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a label is an empty text", name);
    if (find_name(labels, label) >= 0)
        return zr_fail(error, ZERO_ERR_DATA, "%s: two labels are called \"%s\"", name, label);
    if (labels->count == ZR_MOST_LABELS || bytes > (size_t)(ZR_LABELS_TEXT - labels->bytes))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: \"%s\" would be label %d: a model has at most %d labels, whose names "
                       "have at most %d bytes together",
                       name, label, labels->count + 1, ZR_MOST_LABELS, ZR_LABELS_TEXT);
    memcpy(labels->text + labels->bytes, label, bytes);
    labels->bytes += (int)bytes;
    labels->count++;
    return ZERO_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b)
{
    long long x, y;
    read_number(*(const char *const *)a, &x);
    read_number(*(const char *const *)b, &y);
    return (x > y) - (x < y);
}

zero_status zr_labels_sort(zr_labels *labels, zero_error *error)
{
    zr_labels *old = zr_alloc(sizeof *old, error);
    const char *names[ZR_MOST_LABELS], *name;
    bool numbers = true;
    long long number;
    if (!old)
        return ZERO_ERR_MEMORY;
    *old = *labels;
    name = old->text;
    for (int i = 0; i < old->count; i++, name = next_name(name)) {
        names[i] = name;
        numbers = numbers && read_number(name, &number);
    }
    qsort(names, (size_t)old->count, sizeof *names, numbers ? by_number : by_bytes);
    *labels = (zr_labels){.drawn = old->drawn};
    zero_status status = ZERO_OK;
    for (int i = 0; i < old->count && status == ZERO_OK; i++)
        status = zr_labels_add(labels, names[i], "labels", error);
    zr_free(old);
    return status;
}

zero_status zr_labels_number(zr_labels *labels, int count, zero_error *error)
{
    *labels = (zr_labels){.count = 0};
    for (int i = 0; i < count; i++) {
        char name[NUMBER_BYTES];
        snprintf(name, sizeof name, "LABEL_%d", i);
        ZERO_TRY(zr_labels_add(labels, name, "labels", error));
    }
    return ZERO_OK;
}

void zr_labels_list(const zr_labels *labels, char *out, size_t size)
{
    const char *name = labels->text;
    size_t at = 0;
    int shown = 0;
    *out = 0;
    for (; shown < ZR_MIN(labels->count, SHOWN); shown++, name = next_name(name)) {
        bool last = shown + 1 == labels->count;
        const char *before = !shown ? "" : last ? " and " : ", ";
        size_t bytes = strlen(before) + strlen(name) + 2;
        if (at + bytes + (last ? 1 : MORE_BYTES) > size)
            break;
        at += (size_t)snprintf(out + at, size - at, "%s\"%s\"", before, name);
    }
    if (!shown)
        snprintf(out, size, "%d long names", labels->count);
    else if (shown < labels->count)
        snprintf(out + at, size - at, " and %d more", labels->count - shown);
}

void zr_labels_write(const zr_labels *labels, zr_json_writer *w)
{
    const char *name = labels->text;
    zr_json_begin_object(w, "id2label");
    for (int i = 0; i < labels->count; i++, name = next_name(name)) {
        char number[NUMBER_BYTES];
        snprintf(number, sizeof number, "%d", i);
        zr_json_text(w, number, name);
    }
    zr_json_end(w);
    zr_json_begin_object(w, "label2id");
    name = labels->text;
    for (int i = 0; i < labels->count; i++, name = next_name(name))
        zr_json_integer(w, name, i);
    zr_json_end(w);
    zr_json_text(w, "problem_type", "single_label_classification");
}
