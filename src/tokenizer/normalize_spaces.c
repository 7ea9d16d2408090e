// Normalizers that change white space: runs of a character are replaced, the ends are stripped.
#include "tokenizer/bpe_encode.h"

#include <string.h>

static size_t run_at(const char *text, size_t length, const char *of, size_t width)
{
    size_t at = 0;
    while (length - at >= width && !memcmp(text + at, of, width))
        at += width;
    return at;
}

static bool is_replaced(const zr_normal_step *step, bool begins, size_t run, size_t at,
                        const zr_normal_text *now)
{
    size_t width = strlen(step->from);
    return run && run >= (size_t)step->least * width && (!step->at_start || (begins && at == 0)) &&
           (!step->at_stop || at + run == now->length);
}

zero_status zr_normal_runs(zr_encoder *encoder, const zr_normal_step *step, bool begins,
                           zr_normal_text *now)
{
    zr_buffer made = {0};
    size_t width = strlen(step->from), most = now->most;
    const char *end = now->text + now->length;
    if (!step->least && !now->length)
        return ZERO_OK;
    for (const char *at = now->text, *found; at < end && made.length <= most;) {
        found = step->least ? zr_find_text(at, (size_t)(end - at), step->from, width) : NULL;
        found = found ? found : end;
        zr_buffer_append(&made, at, (size_t)(found - at));
        size_t run = run_at(found, (size_t)(end - found), step->from, width);
        if (is_replaced(step, begins, run, (size_t)(found - now->text), now))
            zr_buffer_append(&made, step->to, strlen(step->to));
        else
            zr_buffer_append(&made, found, run);
        at = found + run;
    }
    if (!step->least)
        zr_buffer_append(&made, step->to, strlen(step->to));
    return zr_normal_take(encoder, &made, now);
}

static bool is_space_at(const zr_encoder *encoder, const char *text, size_t length, size_t *bytes)
{
    int width;
    zr_class class = zr_class_at(&encoder->tokenizer->bpe->classes, text, length, &width);
    *bytes = (size_t)width;
    return class == ZR_SPACE;
}

void zr_normal_strip(const zr_encoder *encoder, const zr_normal_step *step, bool begins,
                     zr_normal_text *now)
{
    size_t bytes;
    while (step->at_start && begins && now->length &&
           is_space_at(encoder, now->text, now->length, &bytes)) {
        now->text += bytes;
        now->length -= bytes;
    }
    for (bool stripped = step->at_stop; stripped;) {
        stripped = false;
        for (size_t width = 1; width <= 3 && width <= now->length && !stripped; width++)
            stripped = is_space_at(encoder, now->text + now->length - width, width, &bytes) &&
                       bytes == width;
        now->length -= stripped ? bytes : 0;
    }
}
