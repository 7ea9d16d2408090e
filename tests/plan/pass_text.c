#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MOST_TEXT 8192

static bool has_slot(const zr_instruction *i)
{
    return i->code == ZR_AWAIT || i->code == ZR_FETCH || i->code == ZR_STORE;
}

static bool has_buffer(const zr_instruction *i)
{
    return i->code == ZR_BIND || i->code == ZR_UNBIND;
}

static bool concerns(const pass_concern *concern, const zr_instruction *i)
{
    if (!(concern->codes >> i->code & 1))
        return false;
    if (has_slot(i))
        return concern->slots >> i->slot.kind & 1;
    return !has_buffer(i) || (concern->buffers >> i->place.buffer & 1);
}

static void describe_object(const zr_instruction *i, char *out, size_t size)
{
    *out = '\0';
    if (has_slot(i))
        snprintf(out, size, " %s %d", zr_slot_names[i->slot.kind], i->slot.index);
    else if (i->code == ZR_CALL)
        snprintf(out, size, " %s %d", zr_call_names[i->what], i->unit);
    else if (i->code == ZR_UPDATE && i->flat_param >= 0)
        snprintf(out, size, " %s %d", zr_update_part_names[i->what], i->flat_param);
    else if (i->code == ZR_UPDATE)
        snprintf(out, size, " %s", zr_update_part_names[i->what]);
    else if (has_buffer(i))
        snprintf(out, size, " %d %s", i->flat_param, zr_buffer_names[i->place.buffer]);
    else if (i->code == ZR_SCALARS && i->slot.kind == ZR_SLOT_LINK)
        snprintf(out, size, " %s %d", zr_scalars_part_names[i->what], i->slot.index);
    else if (i->code == ZR_SCALARS)
        snprintf(out, size, " %s", zr_scalars_part_names[i->what]);
    else if (i->flat_param >= 0 || i->slot.kind == ZR_SLOT_LINK)
        snprintf(out, size, " %d", i->flat_param >= 0 ? i->flat_param : i->slot.index);
}

static void append(char *text, const zr_instruction *i)
{
    size_t used = strlen(text);
    char object[64];
    describe_object(i, object, sizeof object);
    snprintf(text + used, MOST_TEXT - used, "%s%s%s%s%s", used ? " | " : "", zr_code_names[i->code],
             object, i->when == ZR_ALWAYS ? "" : " if ",
             i->when == ZR_ALWAYS ? "" : zr_when_names[i->when]);
}

void expect_between(const zr_pass *pass, int first, int end, const pass_concern *concern,
                    const char *expected)
{
    char text[MOST_TEXT] = "";
    for (int i = first; i < end; i++)
        if (concerns(concern, &pass->at[i]))
            append(text, &pass->at[i]);
    assert_string_equal(text, expected);
}

void expect_pass(const zr_pass *pass, const pass_concern *concern, const char *expected)
{
    expect_between(pass, 0, pass->count, concern, expected);
}

void expect_place(zr_buffer_ref place, zr_buffer_ref expected)
{
    assert_string_equal(zr_buffer_names[place.buffer], zr_buffer_names[expected.buffer]);
    assert_int_equal(place.first, expected.first);
}

int find_instruction(const zr_pass *pass, zr_code code, int flat_param, int nth)
{
    for (int i = 0; i < pass->count; i++)
        if (pass->at[i].code == code && pass->at[i].flat_param == flat_param && nth-- == 0)
            return i;
    fail_msg("no %s of flat parameter %d", zr_code_names[code], flat_param);
    return -1;
}
