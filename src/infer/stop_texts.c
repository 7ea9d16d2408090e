#include "infer/stop_texts.h"

#include <string.h>

// Whether the text from here on is a beginning of `stop`, or begins with it; *whole: the latter.
static bool may_begin(const char *text, size_t left, const char *stop, bool *whole)
{
    size_t length = strlen(stop);
    *whole = length <= left;
    return !memcmp(text, stop, ZR_MIN(length, left));
}

size_t zr_stop_scan(const zr_stop_texts *stops, const char *text, size_t length, bool last,
                    bool *found)
{
    *found = false;
    for (size_t at = 0; at < length; at++) {
        bool held = false;
        for (int i = 0; i < stops->count; i++) {
            bool whole;
            if (!may_begin(text + at, length - at, stops->at[i], &whole))
                continue;
            *found |= whole;
            held = true;
        }
        if (*found || (held && !last))
            return at;
    }
    return length;
}
