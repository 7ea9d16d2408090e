#include "lane_text.h"
#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char letters[ZR_ACT_COUNT + 1] = "FBWNU";

// Reads chunk, micro-batch and version; returns what comes after them.
static const char *read_numbers(const char *text, zr_action *action)
{
    int read = 0;
    if (sscanf(text, "%d.%d%n", &action->chunk, &action->micro_batch, &read) != 2) {
        action->chunk = 0;
        assert_int_equal(sscanf(text, "%d%n", &action->micro_batch, &read), 1);
    }
    text += read;
    return sscanf(text, "@%d%n", &action->version, &read) == 1 ? text + read : text;
}

int lane_read(const char *text, zr_action *out)
{
    int count = 0, read = 0;
    char letter;
    while (sscanf(text, " %c%n", &letter, &read) == 1) {
        zr_action action = {.act = (zr_act)(strchr(letters, letter) - letters)};
        text = read_numbers(text + read, &action);
        out[count++] = action;
    }
    return count;
}

void assert_lane(const zr_action *list, int count, const char *expected)
{
    zr_buffer text = {0};
    for (int i = 0; i < count; i++) {
        zr_buffer_printf(&text, "%s%c", i ? " " : "", letters[list[i].act]);
        if (list[i].chunk)
            zr_buffer_printf(&text, "%d.", list[i].chunk);
        zr_buffer_printf(&text, "%d", list[i].micro_batch);
        if (list[i].version)
            zr_buffer_printf(&text, "@%d", list[i].version);
    }
    assert_string_equal(text.data, expected);
    zr_buffer_free(&text);
}
