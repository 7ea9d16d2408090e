// Reads the sentences of a report: their words and values become items.
#include "base/report_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 96 };

typedef struct sentence {
    zr_report *report;
    const zr_value *values, *end; // those that no blank has taken
    bool shown;                   // to people
} sentence;

// Reads "-6.2G}". Returns false if it is wrong.
static bool read_shape(const char *shape, zr_heading *out)
{
    char *at;
    out->left = *shape == '-';
    out->width = (int)strtol(shape + out->left, &at, 10);
    if (*at == '.')
        out->decimals = (int)strtol(at + 1, &at, 10);
    for (; *at != '}'; at++)
        switch (*at) {
        case 'g': out->unit = ZR_UNIT_DIGITS; break;
        case 'G': out->scale = 1e9; break;
        case 'B': out->unit = ZR_UNIT_BYTES; break;
        case 's': out->unit = ZR_UNIT_SECONDS; break;
        case '%': out->unit = ZR_UNIT_SHARE; break;
        default: return false;
        }
    return true;
}

// Puts the next value in the place of "{KEY:SHAPE}". Returns what follows.
static const char *fill_blank(sentence *s, const char *blank)
{
    char key[KEY_BYTES];
    size_t length = strcspn(++blank, ":}");
    zr_heading heading = {.key = length ? key : NULL, .label = s->shown ? "" : NULL};
    snprintf(key, sizeof key, "%.*s", (int)length, blank);
    bool shaped = blank[length] == ':', closed = strchr(blank, '}') != NULL;
    bool right = closed && s->values < s->end && length < sizeof key &&
                 (!shaped || read_shape(blank + length + 1, &heading));
    zr_report_require(s->report, right);
    if (!right)
        return "";
    if (heading.key || heading.label)
        zr_report_phrase(s->report, &heading, *s->values);
    s->values++;
    return strchr(blank, '}') + 1;
}

// Returns whether all values of a part, up to "]", are there.
static bool is_there(const sentence *s, const char *part)
{
    const zr_value *value = s->values;
    for (; *part && *part != ']'; part++)
        if (*part == '{' && value < s->end && value++->kind == ZR_VALUE_ABSENT)
            return false;
    return true;
}

void zr_report_sentence(zr_report *r, const char *label, const char *words, const zr_value *values,
                        int count)
{
    sentence s = {r, values, values + count, true};
    if (label)
        zr_report_add(r, (zr_item){.kind = ZR_ITEM_LABEL, .field.label = label});
    while (*words) {
        int length = (int)strcspn(words, "{[]");
        if (s.shown && length)
            zr_report_words(r, "%.*s", length, words);
        words += length;
        if (*words == '{') {
            words = fill_blank(&s, words);
        } else if (*words) {
            s.shown = *words == ']' || is_there(&s, words);
            words++;
        }
    }
    zr_report_require(r, s.values == s.end);
    zr_report_words(r, "\n");
}
